// SPDX-License-Identifier: GPL-3.0-or-later
//! Whole SIP messages off the wire into an endpoint: parser, transactions, dialogs, the shim. The form of an input is
//! told in [`crate::script`].

use crate::{script, world};

/// Runs one input.
pub fn run(input: &[u8]) {
    world::with(|world| {
        let mut source = 0;
        for record in script::records(input) {
            script::run(world, &mut source, record);
        }
    });
}
