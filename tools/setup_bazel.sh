#!/usr/bin/env bash
# Chooses the Bazel that builds this project and writes it down in .tools/: Bazelisk with the version that .bazelversion
# pins where that can be fetched, an installed Bazel (Debian's bazel-bootstrap) where it cannot. With --install, that one
# is installed if it is missing.

source "$(dirname "$0")/shell.sh"
cd "$REPOSITORY"
mkdir -p "$TOOLS_STATE"

readonly DEBIAN_RULES=/usr/share/bazel/rules
readonly DEBIAN_BAZEL=(bazel-bootstrap bazel-rules-java bazel-rules-proto)
readonly STAND_INS="$REPOSITORY/third_party/bazel_offline"

# Prints Bazelisk's binary: the one that npm installed here, else the one on the path.
find_bazelisk() {
  command -v "$REPOSITORY/node_modules/.bin/bazelisk" || command -v bazelisk
}

# Prints the installed Bazel's binary, not a script that would choose again.
find_installed_bazel() {
  command -v bazel-4 || command -v bazel-real || command -v bazel
}

# Writes .tools/bazel, which runs Bazel.
write_launcher() {
  printf '#!/bin/sh\n%s\n' "$1" >"$TOOLS_STATE/bazel.new"
  chmod +x "$TOOLS_STATE/bazel.new"
  mv "$TOOLS_STATE/bazel.new" "$TOOLS_STATE/bazel"
}

# Writes .tools/bazelrc for a Bazel that can download none of its own rules.
write_offline_settings() {
  cat >"$TOOLS_STATE/bazelrc" <<SETTINGS
build --override_repository=rules_java=$DEBIAN_RULES/java
build --override_repository=rules_proto=$DEBIAN_RULES/proto
build --override_repository=rules_cc=$STAND_INS/rules_cc
build --override_repository=remote_coverage_tools=$STAND_INS/remote_coverage_tools
SETTINGS
}

install_missing=${1:-}
wanted=$(cat .bazelversion)
bazelisk=$(find_bazelisk) || bazelisk=
if [ -n "$bazelisk" ]; then
  say "asking Bazelisk for Bazel $wanted"
  if timeout 300 "$bazelisk" version >"$TOOLS_STATE/bazelisk.log" 2>&1; then
    say "Bazel $wanted, fetched by Bazelisk"
    : >"$TOOLS_STATE/bazelrc"
    write_launcher "exec '$bazelisk' \"\$@\""
    exit
  fi
  say "Bazel $wanted cannot be fetched ($(tail -n 1 "$TOOLS_STATE/bazelisk.log")); looking for an installed one"
fi

if ! find_installed_bazel >/dev/null || [ ! -d "$DEBIAN_RULES" ]; then
  [ "$install_missing" = --install ] ||
    fail "there is no Bazel; install Bazelisk, or: sudo apt-get install ${DEBIAN_BAZEL[*]}"
  install_packages "${DEBIAN_BAZEL[@]}"
fi
installed=$(find_installed_bazel) || fail "no Bazel was found; install Debian's bazel-bootstrap"
write_offline_settings
if [ -n "$bazelisk" ]; then
  write_launcher "USE_BAZEL_VERSION='$installed' exec '$bazelisk' \"\$@\""
else
  write_launcher "exec '$installed' \"\$@\""
fi
say "the Bazel that is installed as $installed"
