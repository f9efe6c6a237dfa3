include $(sort $(wildcard $(BR2_EXTERNAL_VOICE_EDGE_PATH)/package/*/*.mk))
