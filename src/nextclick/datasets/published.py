"""The published data sets that nextclick knows: where they are, their sums, how they are split."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from nextclick.datasets.periods import period_files
from nextclick.files import sha256


@dataclass(frozen=True)
class Published:
    """A data set that its authors publish as period files.

    Parameters
    ----------
    name
        What the command line calls it.
    folder
        Its folder in the authors' repository.
    sums
        The SHA-256 sum of each file.
    test_sessions, test_files
        The test part: the last sessions, or the sessions that begin in the last files.
    """

    name: str
    folder: str
    sums: dict[str, str]
    test_sessions: int | None = None
    test_files: int | None = None


def default_folder(name: str) -> Path:
    """Return the folder that a data set is fetched to unless another one is named."""
    return Path("data") / name


def recognise(source: Path) -> Published | None:
    """Return the published data set that a directory holds, known by the sums of its files."""
    if not source.is_dir():
        return None
    files = period_files(source)
    candidates = [one for one in PUBLISHED.values() if list(one.sums) == [f.name for f in files]]
    if not candidates:
        return None
    sums = {file.name: sha256(file) for file in files}
    return next((one for one in candidates if one.sums == sums), None)


def _numbered(sums: str) -> dict[str, str]:
    return {f"period_{number}.txt": sum_ for number, sum_ in enumerate(sums.split())}


DIGINETICA = Published(
    name="diginetica",
    folder="DIGINETICA",
    test_sessions=59_240,
    sums=_numbered("""
        1c6f7164ad544a483804fc0324a2023801537e5e5db9af0a76d04eca2b83ec86
        a0bc2f94a53b8e72705ce23e738c29c809b37209f61f2af9c25dac7424cc6fe5
        b0fe7341216f27e2ac106e31136996503070c94e34314ca22814d4d62a4cd511
        39c05258bb230082d0fe24c637c29ff9e7ef0b692793f39ce54e2f69705c6abf
        e87a2a1c8abd165fa54773fe971776b5156a69cf8b34221e224c3d3b4b2e3d31
        61bbfeac8754c87281ada54df78c81c010dff7e15611e89eb7f5cb3c4db034cd
        c2a9213eaf6fb59950abd64e76f076da29a8001fa6dcd0556fcb73c09fb29e84
        6e30fe426a03960e991bf28109d5ead1c3a8c9a1df58e5560b05a130f453c732
        2b638a4006e7c7629bac001221d695a1e9aa2f46285feb63560908ef7f55cd12
        e571e5e3e72138ddbbc62c69963638d9a7bd0f561d7f29d99aa165561fd1df3c
        a995a8aa69574531f69c2f3324860c57402cd8d80476a10426379a07338b1e10
        061c7f1f6c8d9cf2c15902a3cfca54b766222ea5a2dcd935ee1ea6b49c59a2ab
        90dfbbd1f43ab54f5da6efe76a187ccaf48b0b5adfad2c5915004f2a5a2610fa
        a1dc91ba3177e4a0e49a6c14bd6cc7c9b93e6c0626f764a17fcd98fff1cb4a9d
        232890ce45e9c513d8f0220d013551216c308d2bfafe6b17e629a45e933f8ba1
        c8db7046711f34e01e421e36b071fe4b39580980c37e8042f50f8279c0287abf
        4725af9a09d73590cf8562ed354191a4d2c91ac19265dea2b7583219137988b3
    """),
)

YOOCHOOSE = Published(
    name="yoochoose",
    folder="YOOCHOOSE",
    test_files=4,
    sums=_numbered("""
        6e91a0cc0c20ff14e4fc341ff7bf64bb5db71ce63e13ef53f2eb241c6f230351
        98bca9bb56e2f263af63a1157421fd25245b4f892771f1fc9c309e7d99b84911
        b95e71fdccaf03fbed1cd89356e2670e020b8383b243a4de5f1977d18f161009
        d3ee40ad978978905fe003c464371b55d686663c29901e20196cd66c14c06d05
        ccf41b01d0819cd52592cf57b0fc6e274c9ca54fa9a0b958ea8a5754422a1783
        59fd2c96a38f7a314f6e1319fdac45b39af8396050efb1d0de9f7df645433804
        011f668d41ba8370fbe54239c6181f9418c38e59a2a106dc99431ed3727220c6
        b7f999c537573af25837867ff3325eae3d67f472007250f3d995e517947d1115
        a7eb3229a2fcf1e56697be17b634cc3fbc31e75faaa37996e317d0231ac5da68
        515ad9767746a8e97be935d96a74d87a00342e6f44b77c66a6d9d611764a6760
        754b9ef567ad9ec8a23af26e81a6dabc0c7bc87d7e9dd822df771b340a515334
        fea7f6053dd8151b409c669717d5c25d71e3a8c8ebba95cc37a7d4a5c07c3ca0
        89205aa5e1ae0c05b7c0e56f0f8978674a9786cae387787391b66ce77a98fab0
        7514dbe11ded4925a0589ad5cecd45f472c8b57d45bb0d6df609465e99f027a1
        a10fd335631e8e147a9799b234a9a020a2c3146a670826a30a986ce0dbb1f03c
        f8f53a3c1cab746e90c5cf99768e2573de1554cdb3ada1f518bc8d8fda2b6312
        7c12a34f2d4864e3e1ed24649fa65f53f3b4b98c058f09e104b2aecf7f703825
    """),
)

PUBLISHED = {one.name: one for one in (DIGINETICA, YOOCHOOSE)}
