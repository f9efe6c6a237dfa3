# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the whole appliance: the image that is flashed, booted under QEMU, or a real box.

labgrid's four parts are kept apart: what is needed of a box (protocol: power, console, commands,
answers), how it is done (drivers: `machine` for QEMU, labgrid's own for a real box), which unit it is
(resources: `box`, and the environment files in ../env) and the states it is brought to (`strategy`).
The tests ask for a state and look at the box through `guest`; none knows what is behind it.

Run them with `just hil qemu`, `just hil qemu-aarch64` or `just hil path/to/your-box.yaml`.
"""
