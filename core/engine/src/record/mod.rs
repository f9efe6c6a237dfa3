// SPDX-License-Identifier: GPL-3.0-or-later
//! Recording to WAV on a thread of its own.
