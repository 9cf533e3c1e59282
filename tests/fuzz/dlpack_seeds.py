"""Inputs of dlpack_import: each is a struct that a producer could give, or nearly."""

import struct

VERSIONED, ROUND_TRIP, NO_DELETER, NO_SHAPE, NO_STRIDES, PROTOTYPE = 1, 2, 4, 8, 16, 224
NEVER, IF_NEEDED, ALWAYS = range(3)
BUFFER, NULL, WILD = range(3)
# (code, bits, lanes) of every type that is accepted, and of some that are not.
TYPES = (
    *((code, bits, 1) for code in (0, 1) for bits in (2, 4, 8, 16, 32, 64)),
    *((2, bits, 1) for bits in (16, 32, 64)),
    *((code, 8, 1) for code in (6, 10, 11, 12, 13, 14)),
    (4, 16, 1),
    (17, 4, 1),
    (17, 4, 2),
    *((5, 64, 1), (2, 32, 4), (15, 6, 1), (0, 128, 1), (3, 64, 1), (8, 8, 1)),
)
# (size, stride) of each dimension.
LAYOUTS = (
    (),
    ((3, 1),),
    ((2, 3), (3, 1)),
    ((2, 1), (3, 2)),
    ((4, 0), (2, -1)),
    ((0, 5), (3, 1)),
    ((1, 2**62), (2, 2)),
    ((1 << 40, 1), (1 << 40, 1)),
    ((-1, 1),),
    ((2**55, 0), (2, 0)),
    *(((1, 7),) * (rank - 2) + ((2, -1), (2, 2)) for rank in (5, 63, 64)),
)


def number(value: int) -> bytes:
    """Returns `value` as Reader::number reads it."""
    if -112 <= value <= 112:
        return struct.pack("<b", value)
    return b"\x7f" + struct.pack("<Q", value % 2**64)


def seed(
    dims: tuple[tuple[int, int], ...] = ((2, 3), (3, 1)),
    bits: int = VERSIONED | ROUND_TRIP,
    policy: int = IF_NEEDED,
    data: int = BUFFER,
    place: int = 64,
    version: tuple[int, int] = (1, 3),
    flags: int = 0,
    device: tuple[int, int] = (1, 0),
    dtype: tuple[int, int, int] = (2, 32, 1),
    offset: int = 0,
    rank: int | None = None,
    failing: bool = False,
) -> bytes:
    choices = policy + 3 * data
    parts = [
        bytes([bits, choices + 135 if failing else choices]),
        *map(number, (256, place, *version, flags, *device)),
        bytes(dtype[:2]),
        *map(number, (dtype[2], offset, len(dims) if rank is None else rank)),
        *(number(entry) for dim in dims for entry in dim),
    ]
    return b"".join(parts)


def all_seeds() -> list[bytes]:
    both = (VERSIONED | ROUND_TRIP, ROUND_TRIP)
    return [
        *(seed(dtype=dtype, dims=((6, 1),), bits=bits) for dtype in TYPES for bits in both),
        *(seed(dtype=dtype, bits=VERSIONED | PROTOTYPE) for dtype in TYPES),
        *(
            seed(dims=dims, policy=policy, bits=bits)
            for dims in LAYOUTS
            for policy in (NEVER, IF_NEEDED, ALWAYS)
            for bits in (*both, VERSIONED | NO_STRIDES, VERSIONED | PROTOTYPE)
        ),
        *(seed(flags=flags, policy=policy) for flags in range(9) for policy in range(3)),
        *(seed(device=(device, 0)) for device in range(20)),
        *(seed(version=version) for version in ((0, 8), (1, 99), (2, 0), (2**32 - 1, 0))),
        *(seed(rank=rank, dims=()) for rank in (-1, 65, 2**31 - 1, -(2**31), 3)),
        *(seed(bits=VERSIONED | bit) for bit in (NO_DELETER, NO_SHAPE)),
        *(
            seed(data=data, place=place, bits=bits)
            for data in (NULL, WILD)
            for place in (8, 2**64 - 16)
            for bits in (*both, VERSIONED | ROUND_TRIP | NO_STRIDES)
        ),
        *(seed(offset=offset) for offset in (1, 3, 4, 2**63, 2**64 - 8)),
        *(seed(place=place, policy=policy) for place in (0, 1, 240, 256) for policy in range(3)),
        *(seed(policy=policy, failing=True) for policy in range(3)),
    ]
