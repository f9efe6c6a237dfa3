# SPDX-License-Identifier: GPL-3.0-or-later
"""The Debian provider: a root tree from Debian 13 packages pinned by a lock."""
