// SPDX-License-Identifier: GPL-3.0-or-later
//! The pinned PJSIP behind a narrow C shim, with a safe Rust API.
