// SPDX-License-Identifier: GPL-3.0-or-later
//! Known answers: RFC 3711 appendix B, RFC 6188 section 7, RFC 7714 sections 16 and 17, and the reference packets that
//! libsrtp's own tests check, which go through key derivation too.

use pjsip_sys::sdes::{MasterKey, Suite};

use super::super::cipher::{derive, Half, Place, Protection};
use super::super::{Receiver, Sender};
use super::{hex, open, open_rtcp, seal, seal_rtcp};

fn master(suite: Suite, key_and_salt: &str) -> MasterKey {
    MasterKey::from_octets(suite, &hex(key_and_salt)).unwrap_or_else(|| unreachable!("length"))
}

fn derived(master: &MasterKey, label: u8, len: usize) -> Vec<u8> {
    let mut out = vec![0xEE; len];
    assert!(derive(master, label, &mut out).is_some());
    out
}

/// RFC 3711 appendix B.3.
#[test]
fn rfc_3711_key_derivation() {
    let key = "E1F97A0D3E018BE0D64FA32C06DE4139 0EC675AD498AFEEBB6960B3AABE6";
    let key = master(Suite::AesCm128HmacSha1_80, key);
    assert_eq!(derived(&key, 0, 16), hex("C61E7A93744F39EE10734AFE3FF7A087"));
    assert_eq!(derived(&key, 2, 14), hex("30CBBC08863D8C85D49DB34A9AE1"));
    let auth = "CEBE321F6FF7716B6FD4AB49AF256A156D38BAA48F0A0ACF3C34E2359E6CDBCE
                E049646C43D9327AD175578EF72270986371C10C9A369AC2F94A8C5FBCDDDC25
                6D6E919A48B610EF17C2041E474035766B68642C59BBFC2F34DB60DBDFB2";
    assert_eq!(derived(&key, 1, 94), hex(auth));
}

/// RFC 6188 section 7.2.
#[test]
fn rfc_6188_key_derivation() {
    let key = "f0f04914b513f2763a1b1fa130f10e2998f6f6e43e4309d1e622a0e332b9f1b6
               3b04803de51ee7c96423ab5b78d2";
    let key = master(Suite::AesCm256HmacSha1_80, key);
    let cipher = "5ba1064e30ec51613cad926c5a28ef731ec7fb397f70a960653caf06554cd8c4";
    assert_eq!(derived(&key, 0, 32), hex(cipher));
    assert_eq!(derived(&key, 2, 14), hex("fa31791685ca444a9e07c6c64e93"));
    assert_eq!(derived(&key, 1, 20), hex("fd9c32d39ed5fbb5a9dc96b30818454d1313dc05"));
}

/// RFC 3711 appendix B.2: the key stream of counter mode, block by block.
#[test]
fn rfc_3711_key_stream() {
    let key = hex("2B7E151628AED2A6ABF7158809CF4F3C");
    let suite = Suite::AesCm128HmacSha1_80;
    let salt = hex("F0F1F2F3F4F5F6F7F8F9FAFBFCFD");
    let half = Protection::with_session(suite, Half::Rtp, &key, &salt);
    let mut text = vec![0; 0xFF02 * 16];
    let place = Place { ssrc: 0, index: 0 };
    assert!(half.seal(place, &[], &mut text, [0; 4]).is_ok());
    for (block, stream) in [
        (0x0000, "E03EAD0935C95E80E166B16DD92B4EB4"),
        (0x0001, "D23513162B02D0F72A43A2FE4A5F97AB"),
        (0x0002, "41E95B3BB0A2E8DD477901E4FCA894C0"),
        (0xFEFF, "EC8CDF7398607CB0F2D21675EA9EA1E4"),
        (0xFF00, "362B7C3C6773516318A077D7FC5073AE"),
        (0xFF01, "6A2CC3787889374FBEB4C81B17BA6C44"),
    ] {
        assert_eq!(text[block * 16..block * 16 + 16], hex(stream), "{block:x}");
    }
}

const GCM_128: &str = "000102030405060708090a0b0c0d0e0f";
const GCM_256: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";
const GCM_SALT: &str = "517569642070726f2071756f";

/// RFC 7714 sections 16.1 and 16.2, with session keys as given there.
#[test]
fn rfc_7714_srtp() {
    let header = hex("8040f17b 8041f8d3 5501a0b2");
    let plain = hex("47616c6c696120657374206f6d6e697320646976697361\
                     20696e207061727465732074726573");
    for (suite, key, sealed) in [
        (
            Suite::AeadAes128Gcm,
            GCM_128,
            "f24de3a3fb34de6cacba861c9d7e4bcabe633bd50d294e6f42a5f47a51c7d19b36de3adf8833
             899d7f27beb16a9152cf765ee4390cce",
        ),
        (
            Suite::AeadAes256Gcm,
            GCM_256,
            "32b1de78a822fe12ef9f78fa332e33aab18012389a58e2f3b50b2a0276ffae0f1ba63799b87b
             7aa3db36dfffd6b0f9bb7878d7a76c13",
        ),
    ] {
        let half = Protection::with_session(suite, Half::Rtp, &hex(key), &hex(GCM_SALT));
        let place = Place { ssrc: 0x5501_a0b2, index: 0xf17b };
        let mut text = plain.clone();
        let Ok(tag) = half.seal(place, &header, &mut text, [0; 4]) else { unreachable!() };
        text.extend(tag);
        assert_eq!(text, hex(sealed), "{suite:?}");
        let (text, tag) = text.split_at_mut(plain.len());
        assert!(half.open(place, &header, text, tag, [0; 4]).is_ok());
        assert_eq!(text, plain);
    }
}

/// RFC 7714 sections 17.1 and 17.2. (The packet printed in front of them is another one; these agree with themselves.)
#[test]
fn rfc_7714_srtcp() {
    let header = hex("81c8000d 4d617273");
    let plain = hex("4e5450314e545032525450200000042a0000e9304c756e61
                     deadbeefdeadbeefdeadbeefdeadbeefdeadbeef");
    for (suite, key, sealed) in [
        (
            Suite::AeadAes128Gcm,
            GCM_128,
            "63e94885dcdab67ca727d7662f6b7e997ff5c0f76c06f32dc676a5f1730d6fda4ce09b4686303ded
             0bb9275bc84aa45896cf4d2fc5abf87245d9eade",
        ),
        (
            Suite::AeadAes256Gcm,
            GCM_256,
            "d50ae4d1f5ce5d304ba297e47d470c282c3ece5dbffe0a50a2eaa5c1110555be8415f658c61de047
             6f1b6fad1d1eb30c4446839f57ff6f6cb26ac3be",
        ),
    ] {
        let half = Protection::with_session(suite, Half::Rtcp, &hex(key), &hex(GCM_SALT));
        let place = Place { ssrc: 0x4d61_7273, index: 0x5d4 };
        let mut text = plain.clone();
        let index = 0x8000_05d4_u32.to_be_bytes();
        let Ok(tag) = half.seal(place, &header, &mut text, index) else { unreachable!() };
        text.extend(tag);
        assert_eq!(text, hex(sealed), "{suite:?}");
    }
}

/// Whole packets with master keys: RTP of SSRC cafebabe and sequence 1234, RTCP with index 1.
#[test]
fn reference_packets_of_libsrtp() {
    let rtp = hex("800f1234decafbadcafebabe abababababababababababababababab");
    let rtcp = hex("81c8000bcafebabe abababababababababababababababab");
    let cm128 = "e1f97a0d3e018be0d64fa32c06de4139 0ec675ad498afeebb6960b3aabe6";
    let cm256 = "f0f04914b513f2763a1b1fa130f10e2998f6f6e43e4309d1e622a0e332b9f1b6
                 3b04803de51ee7c96423ab5b78d2";
    let gcm = "000102030405060708090a0b0c0d0e0f a0a1a2a3a4a5a6a7a8a9aaab";
    for (suite, key, sealed, sealed_rtcp) in [
        (
            Suite::AesCm128HmacSha1_80,
            cm128,
            "4e55dc4ce79978d88ca4d215949d2402 b78d6acc99ea179b8dbb",
            Some("7128035be487b9bdbef89041f977a5a8 80000001 993e08cd54d6c1230798"),
        ),
        (
            Suite::AesCm128HmacSha1_32,
            cm128,
            "4e55dc4ce79978d88ca4d215949d2402 b78d6acc",
            Some("7128035be487b9bdbef89041f977a5a8 80000001 993e08cd54d6c1230798"),
        ),
        (
            Suite::AesCm256HmacSha1_80,
            cm256,
            "f1d9de17ff251ff1aa007774b0b4b40d a08d9d9a5b3a55d8873b",
            None,
        ),
        (
            Suite::AeadAes128Gcm,
            gcm,
            "c5002ede04cfdd2eb91159e0880aa06e d2976826f796b201df3131a127e8a392",
            Some("c98b8b5df0392a55852b6c21ac8e7025 c52c6fbea2b3b446ea31123ba88ce61e 80000001"),
        ),
    ] {
        let key = master(suite, key);
        let (Some(mut tx), Some(mut rx)) = (Sender::new(&key), Receiver::new(&key, None)) else {
            unreachable!()
        };
        let packet = seal(&mut tx, &rtp);
        assert_eq!(packet[12..], hex(sealed), "{suite:?}");
        assert_eq!(open(&mut rx, &packet).as_deref(), Ok(&rtp[..]));
        tx.wind(0xcafe_babe, 0x1234, 1);
        let packet = seal_rtcp(&mut tx, &rtcp);
        if let Some(sealed) = sealed_rtcp {
            assert_eq!(packet[8..], hex(sealed), "{suite:?} RTCP");
        }
        assert_eq!(open_rtcp(&mut rx, &packet).as_deref(), Ok(&rtcp[..]));
    }
}
