# SPDX-License-Identifier: GPL-3.0-or-later
"""The appliance around the agent: provisioning, real-time set-up, boot counters, reports.

Every function takes the root of the file system, so that tests hand it trees of their own.
Nothing here imports the agent's network code: these commands run at boot, where each second counts.
"""
