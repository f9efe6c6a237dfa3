################################################################################
#
# voice-edge
#
################################################################################

VOICE_EDGE_TOP = $(BR2_EXTERNAL_VOICE_EDGE_PATH)/../..
VOICE_EDGE_VERSION = $(shell sed -n 's/^version = "\(.*\)"/\1/p' $(VOICE_EDGE_TOP)/Cargo.toml)
VOICE_EDGE_SITE = $(VOICE_EDGE_TOP)/out/bundle/$(ARCH)
VOICE_EDGE_SITE_METHOD = local
VOICE_EDGE_LICENSE = GPL-3.0+, MIT (models)
VOICE_EDGE_LICENSE_FILES = voice-edge/licenses/LICENSE
VOICE_EDGE_INSTALL_TARGET = NO
VOICE_EDGE_INSTALL_IMAGES = YES

# Handed over beside the images: the finish lays it into the root after
# Buildroot has stripped binaries and rewritten their RPATH, which would
# break a frozen program.
define VOICE_EDGE_INSTALL_IMAGES_CMDS
	rm -rf $(BINARIES_DIR)/voice-edge
	cp -a $(@D)/voice-edge $(BINARIES_DIR)/voice-edge
endef

$(eval $(generic-package))
