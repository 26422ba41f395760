#!/usr/bin/env bash
# Sees to it that what the project needs beside git, Go and make is installed:
#
#   scripts/need.sh postgres gcc
#
# It does nothing, quickly, when all is there. Else it installs with apt-get, dnf
# or brew, and elsewhere says what to install.
set -euo pipefail

has_postgres() {
  local dir
  for dir in "$(dirname "$(readlink -f "$(command -v pg_ctl || echo /none/pg_ctl)")")" \
    /usr/lib/postgresql/*/bin /usr/pgsql-*/bin /opt/homebrew/opt/postgresql*/bin \
    /usr/local/opt/postgresql*/bin /Applications/Postgres.app/Contents/Versions/*/bin \
    /usr/local/pgsql/bin; do
    [ -x "$dir/initdb" ] && [ -x "$dir/pg_ctl" ] && [ -x "$dir/postgres" ] || continue
    [ "$("$dir/postgres" --version | sed -E 's/^[^0-9]*([0-9]+).*/\1/')" -ge 15 ] && return
  done
  return 1
}

# The race detector needs a C compiler.
has_gcc() { command -v gcc >/dev/null || command -v clang >/dev/null; }

# The tests drive the server with clients and suites of others, and its pages with
# a browser.
has_npm() { command -v npm >/dev/null; }

has_chromium() {
  local name
  for name in chromium chromium-browser google-chrome; do
    command -v "$name" >/dev/null && return
  done
  [ -x "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome" ]
}

# Prints the package of a need for a package manager.
package() {
  case "$1/$2" in
  apt-get/postgres) echo postgresql ;;
  apt-get/gcc) echo gcc libc6-dev ;;
  apt-get/npm) echo nodejs npm ;;
  apt-get/chromium) echo chromium ;;
  dnf/postgres) echo postgresql-server ;;
  dnf/gcc) echo gcc glibc-devel ;;
  dnf/npm) echo nodejs npm ;;
  dnf/chromium) echo chromium ;;
  brew/postgres) echo postgresql@17 ;;
  brew/gcc) echo gcc ;;
  brew/npm) echo node ;;
  esac
}

as_root() {
  if [ "$(id -u)" = 0 ]; then
    "$@"
  elif command -v sudo >/dev/null; then
    sudo "$@"
  else
    echo "need.sh: not root and no sudo: cannot run: $*" >&2
    return 1
  fi
}

install_with_apt_get() {
  # The package would create and start a cluster of its own, which nobody asked for.
  local conf=/etc/postgresql-common/createcluster.conf
  if [ ! -e "$conf" ]; then
    as_root mkdir -p "$(dirname "$conf")"
    echo 'create_main_cluster = false' | as_root tee "$conf" >/dev/null
  fi
  local install=(env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends
    -o Dpkg::Options::=--force-confold "$@")
  # A list of packages that is missing or old is the usual reason to fail.
  as_root "${install[@]}" >/dev/null 2>&1 || {
    as_root apt-get update -qq
    as_root "${install[@]}" >/dev/null
  }
}

install_with_dnf() { as_root dnf install -y -q "$@"; }

install_with_brew() { brew install --quiet "$@"; }

manager() {
  local m
  for m in apt-get dnf brew; do
    command -v "$m" >/dev/null && { echo "$m"; return; }
  done
  return 1
}

missing=()
for need in "$@"; do
  case "$need" in
  postgres | gcc | npm | chromium) "has_$need" || missing+=("$need") ;;
  *)
    echo "need.sh: unknown need: $need" >&2
    exit 2
    ;;
  esac
done
[ ${#missing[@]} -gt 0 ] || exit 0

if m=$(manager); then
  packages=()
  for need in "${missing[@]}"; do
    read -ra names <<<"$(package "$m" "$need")"
    packages+=("${names[@]}")
  done
  echo "installing with $m: ${packages[*]}"
  "install_with_${m/-/_}" "${packages[@]}" || true
fi

status=0
for need in "${missing[@]}"; do
  "has_$need" && continue
  status=1
  case "$need" in
  postgres) echo "need.sh: please install a PostgreSQL server, version 15 or later (initdb, pg_ctl and postgres on PATH)" >&2 ;;
  gcc) echo "need.sh: please install a C compiler (gcc or clang), which go test -race needs" >&2 ;;
  npm) echo "need.sh: please install Node.js with npm, which brings the clients that tests use" >&2 ;;
  chromium) echo "need.sh: please install Chromium or Chrome, which the tests of pages drive" >&2 ;;
  esac
done
exit $status
