# SPDX-License-Identifier: GPL-3.0-or-later
"""A SIP and RTP test caller that shares no code with PJSIP or with our own core.

The demo and the tests place calls with it: ``Caller`` (caller.py) is the whole
telephone; ``UserAgent`` (ua.py) is its SIP state machine without I/O, ``RtpPeer`` (rtp_peer.py) its
audio, ``measure`` the questions asked of a call afterwards. Only numpy is needed, and not even that for signalling,
which the health gate of updates uses (update/loop_call.py).

All times are CLOCK_MONOTONIC nanoseconds. A sample's time is the time of its packet on the wire
(departure at the caller, kernel's arrival stamp for what the agent sent) plus its place in the
packet: what a listener without a buffer would hear.
"""
