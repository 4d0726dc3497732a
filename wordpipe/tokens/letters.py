"""The printable letters that stand for bytes in byte-level vocabularies."""

__all__ = ["byte_letters"]


def byte_letters() -> list[str]:
    """The 256 letters, in the order of the bytes.

    Printable bytes of Latin-1 are themselves; the others become U+0100, U+0101, … in the order of the bytes.
    Source: encoder.py of GPT-2 (Radford et al., Language Models are Unsupervised Multitask Learners, 2019).
    """
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    letters, shifted = [], 0x100
    for byte in range(256):
        letters.append(chr(byte if byte in printable else shifted))
        shifted += byte not in printable
    return letters
