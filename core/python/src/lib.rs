// SPDX-License-Identifier: GPL-3.0-or-later
//! Python boundary of voicecore.
