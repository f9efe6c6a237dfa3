# SPDX-License-Identifier: GPL-3.0-or-later
"""The OS image: providers turn packages into a root tree, everything after that is shared (docs/image.md)."""
