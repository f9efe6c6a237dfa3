# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests against real peers in real time: SIPp, baresip, broken datagrams, load, life cycle.

Three things are kept apart. `drivers` say where the appliance runs (a process on loopback today),
`peers` are what speaks to it, `scenarios` and the test files say what the peer does and what must hold.
"""
