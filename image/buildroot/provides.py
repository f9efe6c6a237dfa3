# SPDX-License-Identifier: GPL-3.0-or-later
"""What our units, scripts and commands need, and which symbol of Buildroot or the kernel brings it.

A program, unit or directive that is in none of the tables fails the check: whoever adds one to the overlay states here
what has to be selected for it, so that the release build does not lack what the Debian build happened to have.
"""

from __future__ import annotations

BUSYBOX = "BR2_PACKAGE_BUSYBOX"
PROGRAMS = {
    "chronyd": "BR2_PACKAGE_CHRONY",
    "cyclictest": "BR2_PACKAGE_RT_TESTS",
    "dmsetup": "BR2_PACKAGE_LVM2",
    "e2fsck": "BR2_PACKAGE_E2FSPROGS",
    "findmnt": "BR2_PACKAGE_UTIL_LINUX_BINARIES",
    "grub-editenv": "BR2_TARGET_GRUB2_INSTALL_TOOLS",
    "ip": "BR2_PACKAGE_IPROUTE2",
    "mke2fs": "BR2_PACKAGE_E2FSPROGS",
    "modprobe": "BR2_PACKAGE_KMOD_TOOLS",
    "nft": "BR2_PACKAGE_NFTABLES",
    "nologin": "BR2_PACKAGE_UTIL_LINUX_NOLOGIN",
    "partx": "BR2_PACKAGE_UTIL_LINUX_PARTX",
    "rauc": "BR2_PACKAGE_RAUC",
    "resize2fs": "BR2_PACKAGE_E2FSPROGS_RESIZE2FS",
    "sfdisk": "BR2_PACKAGE_UTIL_LINUX_BINARIES",
    "ssh-keygen": "BR2_PACKAGE_OPENSSH_KEY_UTILS",
    "sshd": "BR2_PACKAGE_OPENSSH_SERVER",
    "systemctl": "BR2_PACKAGE_SYSTEMD",
    "systemd-analyze": "BR2_PACKAGE_SYSTEMD_ANALYZE",
    "udevadm": "BR2_PACKAGE_SYSTEMD",
    "voice-edge": "BR2_PACKAGE_VOICE_EDGE",
}
"""Whatever else is called has to be an applet of Buildroot's busybox configuration."""

NOT_IN_UNITS = ("dmsetup", "e2fsck", "mke2fs", "grub-editenv", "rauc", "nologin", "modprobe")
"""Called by the initrd, by RAUC or by hand."""

UNITS = {
    "chrony.service": "BR2_PACKAGE_CHRONY",
    "systemd-networkd.service": "BR2_PACKAGE_SYSTEMD_NETWORKD",
    "systemd-networkd.socket": "BR2_PACKAGE_SYSTEMD_NETWORKD",
    "systemd-resolved.service": "BR2_PACKAGE_SYSTEMD_RESOLVED",
    "multi-user.target": "BR2_PACKAGE_SYSTEMD",
    "systemd-timesyncd.service": "BR2_PACKAGE_SYSTEMD",
}
"""Units of others that the overlay enables or extends; besides those, only our own."""

SECCOMP = ("BR2_PACKAGE_LIBSECCOMP", "CONFIG_SECCOMP_FILTER")
BPF = ("CONFIG_CGROUP_BPF", "CONFIG_BPF_SYSCALL")
DIRECTIVES: dict[str, tuple[str, ...]] = {
    "AllowedCPUs": ("CONFIG_CPUSETS",),
    "CPUWeight": ("CONFIG_FAIR_GROUP_SCHED",),
    "DHCP": ("BR2_PACKAGE_SYSTEMD_NETWORKD",),
    "DeviceAllow": BPF,
    "DevicePolicy": BPF,
    "IOWeight": ("CONFIG_BLK_CGROUP",),
    "IPAddressAllow": BPF,
    "IPAddressDeny": BPF,
    "LockPersonality": SECCOMP,
    "MemoryDenyWriteExecute": SECCOMP,
    "MulticastDNS": ("BR2_PACKAGE_SYSTEMD_RESOLVED",),
    "NAutoVTs": ("BR2_PACKAGE_SYSTEMD_LOGIND",),
    "PAMName": ("BR2_PACKAGE_LINUX_PAM",),
    "PrivateIPC": ("CONFIG_IPC_NS",),
    "PrivateNetwork": ("CONFIG_NET_NS",),
    "PrivateUsers": ("CONFIG_USER_NS",),
    "ProtectClock": SECCOMP,
    "ProtectControlGroups": ("CONFIG_CGROUPS",),
    "ProtectHostname": ("CONFIG_UTS_NS",),
    "ProtectKernelLogs": SECCOMP,
    "ProtectKernelModules": SECCOMP,
    "RestrictAddressFamilies": SECCOMP,
    "RestrictNamespaces": SECCOMP,
    "RestrictRealtime": SECCOMP,
    "RestrictSUIDSGID": SECCOMP,
    "RuntimeWatchdogSec": ("CONFIG_WATCHDOG",),
    "SystemCallArchitectures": SECCOMP,
    "SystemCallErrorNumber": SECCOMP,
    "SystemCallFilter": SECCOMP,
}
"""Directives of unit, network and manager files that need a part of systemd or of the kernel."""

SINCE = {
    "CrashAction": 256,
    "ImportCredential": 254,
    "LoadCredential": 247,
    "PrivateIPC": 248,
    "PrivateTmp=disconnected": 257,
    "ProtectProc": 247,
    "RestartMaxDelaySec": 254,
    "RestartSteps": 254,
    "WantsMountsFor": 256,
}
"""Directives, or values of them, that are younger than systemd 246, and the version that brought them (its NEWS)."""

PLAIN = frozenset(
    """
    Address After Alias AmbientCapabilities Before BindsTo CPUAffinity CPUSchedulingPolicy CPUSchedulingPriority
    CapabilityBoundingSet ClientIdentifier ConditionFileNotEmpty ConditionKernelCommandLine ConditionPathExists
    ConditionPathIsDirectory ConditionPathIsMountPoint ConditionVirtualization Conflicts DNS DefaultDependencies
    DefaultLimitCORE DefaultTimeoutStopSec Description DirectoryMode Documentation Domains DumpCore DynamicUser
    Environment EnvironmentFile ExecReload ExecStart ExecStartPost ExecStartPre ExecStop ExecStopPost
    FinalKillSignal ForwardToSyslog Gateway Group IgnoreSIGPIPE InaccessiblePaths KeyringMode KillMode
    KillSignal Kind LLMNR LimitCORE LimitMEMLOCK LimitNOFILE LimitNPROC LimitRTPRIO ListenDatagram ListenStream
    LogsDirectory MemoryHigh MemoryMax Name Nice NoNewPrivileges NotifyAccess OOMScoreAdjust OnBootSec
    OnCalendar OnFailure Options PIDFile PartOf Persistent PrivateDevices PrivateTmp ProtectHome
    ProtectKernelTunables ProtectSystem ReadOnlyPaths ReadWritePaths RebootWatchdogSec RefuseManualStart
    RemainAfterExit RemoveIPC Requires RequiresMountsFor ReserveVT Restart RestartPreventExitStatus RestartSec
    RuntimeDirectory RuntimeDirectoryMode RuntimeDirectoryPreserve RuntimeMaxUse Slice SocketMode StandardError
    StandardInput StandardOutput StartLimitBurst StartLimitIntervalSec StateDirectory StateDirectoryMode
    StopWhenUnneeded Storage SuccessExitStatus SyslogIdentifier SystemKeepFree SystemMaxUse TTYPath TTYReset
    TasksMax TimeoutSec TimeoutStartSec TimeoutStopSec Type UMask UseDNS UseDomains UseNTP User WantedBy Wants
    WatchdogSec What Where WorkingDirectory
    """.split()
)
"""Directives that need nothing beyond systemd itself and are older than 246."""

OTHER_FEATURES = {
    "x-systemd.automount": "CONFIG_AUTOFS_FS",
    "flags interval": "CONFIG_NF_TABLES_INET",
    "ct state": "CONFIG_NFT_CT",
    "limit rate": "CONFIG_NFT_LIMIT",
    "reject": "CONFIG_NFT_REJECT_INET",
    "UsePAM yes": "BR2_PACKAGE_LINUX_PAM",
    "ntsdumpdir": "BR2_PACKAGE_GNUTLS",
}
"""Words in fstab, firewall, SSH and chrony settings, and what they need."""
