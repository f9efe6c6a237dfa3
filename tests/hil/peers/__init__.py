# SPDX-License-Identifier: GPL-3.0-or-later
"""What speaks to the appliance: SIPp, baresip, plain datagrams, an RTP end, an impaired network."""
