#!/usr/bin/env bash
# Selects the Bazel for this project and writes .tools/bazel: Bazelisk with the version in .bazelversion if it can be
# downloaded, else an installed Bazel (Debian's bazel-bootstrap). With --install, installs Debian's Bazel if it is missing.

source "$(dirname "$0")/shell.sh"
cd "$REPOSITORY"
mkdir -p "$TOOLS_STATE"

readonly DEBIAN_RULES=/usr/share/bazel/rules
readonly DEBIAN_BAZEL=(bazel-bootstrap bazel-rules-java bazel-rules-proto)
readonly STAND_INS="$REPOSITORY/third_party/bazel_offline"

# Prints the path of Bazelisk: from node_modules, else from PATH.
find_bazelisk() {
  command -v "$REPOSITORY/node_modules/.bin/bazelisk" || command -v bazelisk
}

# Prints the path of the installed Bazel binary, preferring it to a wrapper script.
find_installed_bazel() {
  command -v bazel-4 || command -v bazel-real || command -v bazel
}

# Writes .tools/bazel, which runs Bazel.
write_launcher() {
  printf '#!/bin/sh\n%s\n' "$1" >"$TOOLS_STATE/bazel.new"
  chmod +x "$TOOLS_STATE/bazel.new"
  mv "$TOOLS_STATE/bazel.new" "$TOOLS_STATE/bazel"
}

# Writes .tools/bazelrc for a Bazel that cannot download its rules.
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
  say "downloading Bazel $wanted with Bazelisk"
  if timeout 300 "$bazelisk" version >"$TOOLS_STATE/bazelisk.log" 2>&1; then
    say "using Bazel $wanted from Bazelisk"
    : >"$TOOLS_STATE/bazelrc"
    write_launcher "exec '$bazelisk' \"\$@\""
    exit
  fi
  say "cannot download Bazel $wanted ($(tail -n 1 "$TOOLS_STATE/bazelisk.log")); looking for an installed Bazel"
fi

if ! find_installed_bazel >/dev/null || [ ! -d "$DEBIAN_RULES" ]; then
  [ "$install_missing" = --install ] ||
    fail "Bazel is missing; install Bazelisk, or run: sudo apt-get install ${DEBIAN_BAZEL[*]}"
  install_packages "${DEBIAN_BAZEL[@]}"
fi
installed=$(find_installed_bazel) || fail "Bazel is missing; install Debian's bazel-bootstrap"
write_offline_settings
if [ -n "$bazelisk" ]; then
  write_launcher "USE_BAZEL_VERSION='$installed' exec '$bazelisk' \"\$@\""
else
  write_launcher "exec '$installed' \"\$@\""
fi
say "using the installed Bazel: $installed"
