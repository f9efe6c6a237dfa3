// SPDX-License-Identifier: GPL-3.0-or-later
//! The build script's ONNX reader: what it does with a file that is not the one it is meant for.

#[path = "../vad_weights.rs"]
#[allow(dead_code)] // the part that talks to cargo
mod vad_weights;

use vad_weights::{extract, read_model, sha256, tensors};

/// A protobuf field with content.
fn field(number: u8, content: &[u8]) -> Vec<u8> {
    let mut bytes = vec![number << 3 | 2];
    let mut length = content.len();
    while length > 0x7f {
        bytes.push(length as u8 | 0x80);
        length >>= 7;
    }
    bytes.push(length as u8);
    bytes.extend_from_slice(content);
    bytes
}

/// What a small model is made of, and what is wrong with it.
#[derive(Clone, Copy)]
struct Model {
    renamed: &'static str,
    reshaped: &'static str,
    retyped: &'static str,
    shortened: &'static str,
}

const SOUND: Model = Model { renamed: "", reshaped: "", retyped: "", shortened: "" };

impl Model {
    fn constant(self, name: &str, shape: &[usize]) -> Vec<u8> {
        let values: usize = shape.iter().product();
        let mut raw = vec![7; values * 4];
        if name == self.shortened {
            raw.pop();
        }
        let mut tensor = vec![2 << 3, if name == self.retyped { 10 } else { 1 }];
        // Half of the dimensions packed, half not: both are lawful.
        for (i, &dim) in shape.iter().enumerate() {
            let dim = if name == self.reshaped { dim + 1 } else { dim };
            let varint = [dim as u8 | 0x80, (dim >> 7) as u8];
            if i == 0 {
                tensor.push(1 << 3);
                tensor.extend(varint);
            } else {
                tensor.extend(field(1, &varint));
            }
        }
        tensor.extend(field(9, &raw));
        let output = if name == self.renamed { "other" } else { name };
        let mut node = field(2, format!("If_0__Inline_0__{output}").as_bytes());
        node.extend(field(4, b"Constant"));
        node.extend(field(5, &[field(1, b"value"), field(5, &tensor)].concat()));
        field(1, &node)
    }

    fn bytes(self) -> Vec<u8> {
        let branch = |name: &str, fft| {
            let constants = tensors(fft).map(|(name, shape)| self.constant(name, &shape)).concat();
            field(5, &[field(1, name.as_bytes()), field(6, &constants)].concat())
        };
        let choice = [field(4, b"If"), branch("else_branch", 128), branch("then_branch", 256)];
        field(7, &field(1, &choice.concat()))
    }
}

#[test]
fn a_model_of_the_right_shape_is_read_whole() {
    let weights = read_model(&SOUND.bytes()).unwrap();
    let values: usize =
        [128, 256].map(|fft| tensors(fft).map(|t| t.1.iter().product())).concat().iter().sum();
    assert_eq!(weights, vec![7; values * 4]);
}

#[test]
fn what_is_wrong_with_a_tensor_is_said_by_name() {
    let name = "encoder.1.reparam_conv.weight";
    let cases = [
        (Model { renamed: name, ..SOUND }, "else_branch has no constant encoder.1"),
        (
            Model { reshaped: name, ..SOUND },
            "shape [65, 129, 4]; must be f32 (type 1), [64, 128, 3]",
        ),
        (Model { retyped: name, ..SOUND }, "encoder.1.reparam_conv.weight: type 10"),
        (Model { shortened: name, ..SOUND }, "98303 bytes of raw data, must be 98304"),
    ];
    for (model, expected) in cases {
        let why = read_model(&model.bytes()).unwrap_err();
        assert!(why.contains(expected), "{why:?} does not say {expected:?}");
    }
}

#[test]
fn a_file_cut_anywhere_gives_an_error() {
    let model = SOUND.bytes();
    for length in (0..model.len()).step_by(9973).chain([1, 2, 5, model.len() - 1]) {
        assert!(read_model(&model[..length]).is_err(), "cut at {length}");
    }
}

#[test]
fn another_file_is_refused_by_its_digest() {
    let why = extract(&SOUND.bytes()).unwrap_err();
    assert!(why.contains("not the silero_vad.onnx"), "{why}");
    assert!(read_model(b"<html>404</html>").is_err());
}

#[test]
fn sha256_gives_the_published_digests() {
    // FIPS 180-4 examples, and lengths about the padding's boundary as computed by coreutils.
    let cases: [(&[u8], &str); 5] = [
        (b"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"),
        (b"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"),
        (&[b'a'; 55], "9f4390f8d30c2dd92ec9f095b65e2b9ae9b0a925a5258e241c9f1e910f734318"),
        (&[b'a'; 56], "b35439a4ac6f0948b6d6f9e3c6af0f5f590ce20f1bde7090ef7970686ec6738a"),
        (&[b'a'; 64], "ffe054fe7ae0cb6dc65c3af9b61d5209f439851db43d0ba5997337df154668eb"),
    ];
    for (data, digest) in cases {
        assert_eq!(sha256(data), digest, "{} bytes", data.len());
    }
}
