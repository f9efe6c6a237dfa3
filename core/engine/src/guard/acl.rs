// SPDX-License-Identifier: GPL-3.0-or-later
//! Networks in CIDR notation, IPv4 and IPv6.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// An address with a prefix length, such as `192.0.2.0/24` or `2001:db8::/32`. A bare address is itself alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Network {
    address: IpAddr,
    prefix: u8,
}

/// IPv4 sockets that are IPv6 ones underneath show `::ffff:192.0.2.1`: one form for all.
pub(super) fn plain(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V6(v6) => v6.to_ipv4_mapped().map_or(address, IpAddr::V4),
        IpAddr::V4(_) => address,
    }
}

fn bits(address: IpAddr) -> (u128, u8) {
    match address {
        IpAddr::V4(v4) => (u128::from(u32::from(v4)) << 96, 32),
        IpAddr::V6(v6) => (u128::from(v6), 128),
    }
}

fn mask(prefix: u8) -> u128 {
    u128::MAX.checked_shl(128 - u32::from(prefix)).unwrap_or(0)
}

impl Network {
    /// Whether `address` lies inside; one of the other family never does.
    pub fn contains(&self, address: IpAddr) -> bool {
        let ((ours, width), (theirs, their_width)) = (bits(self.address), bits(plain(address)));
        width == their_width && (ours ^ theirs) & mask(self.prefix) == 0
    }
}

impl FromStr for Network {
    type Err = String;

    /// Errors say what is wrong and what is meant.
    fn from_str(text: &str) -> Result<Network, String> {
        let (address, prefix) = match text.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix)),
            None => (text, None),
        };
        let address: IpAddr =
            address.parse().map_err(|_| format!("{text:?} is not an address or network"))?;
        let address = plain(address);
        let (value, width) = bits(address);
        let prefix = match prefix {
            None => width,
            Some(prefix) => prefix
                .parse::<u8>()
                .ok()
                .filter(|p| *p <= width && !prefix.starts_with('+'))
                .ok_or_else(|| format!("{text:?} has a prefix length that is not 0 to {width}"))?,
        };
        if value & !mask(prefix) != 0 {
            return Err(format!("{text:?} has bits set behind its prefix"));
        }
        Ok(Network { address, prefix })
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.prefix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn network(text: &str) -> Network {
        text.parse().unwrap_or_else(|e: String| panic!("{e}"))
    }

    #[test]
    fn inside_and_outside() {
        for (net, inside, outside) in [
            ("192.0.2.0/24", "192.0.2.255", "192.0.3.0"),
            ("192.0.2.7", "192.0.2.7", "192.0.2.8"),
            ("10.0.0.0/8", "10.255.0.1", "11.0.0.0"),
            ("0.0.0.0/0", "203.0.113.1", "2001:db8::1"),
            ("2001:db8::/32", "2001:db8:ffff::1", "2001:db9::"),
            ("2001:db8::/127", "2001:db8::1", "2001:db8::2"),
            ("::/0", "::1", "127.0.0.1"),
            ("192.0.2.0/24", "::ffff:192.0.2.1", "::ffff:192.0.3.1"),
            ("::ffff:192.0.2.9", "192.0.2.9", "::192.0.2.9"),
        ] {
            let address = |text: &str| text.parse::<IpAddr>().unwrap();
            assert!(network(net).contains(address(inside)), "{inside} in {net}");
            assert!(!network(net).contains(address(outside)), "{outside} not in {net}");
        }
    }

    #[test]
    fn what_is_no_network_says_so() {
        for text in [
            "",
            "host",
            "192.0.2.0/33",
            "192.0.2.1/24",
            "192.0.2.0/",
            "::/129",
            "1.2.3",
            "10.0.0.0/+8",
        ] {
            assert!(text.parse::<Network>().is_err(), "{text:?}");
        }
        assert_eq!(network("192.0.2.7").to_string(), "192.0.2.7/32");
    }
}
