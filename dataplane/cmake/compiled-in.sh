#!/bin/sh
# What the programs of a build are compiled from besides this repository, such as libraries of headers alone:
#
#   compiled-in.sh BUILD OUT
#
# ninja knows every header that the compiler has read, and dpkg whose it is. OUT gets their list, in the form of dpkg's
# status, and their licences, at the paths that an image has them at. internal/sbom reads both.
set -eu
build=$1 out=$2
list=$out/usr/share/peercache/compiled-in
mkdir -p "$out/usr/share/peercache"
: >"$list"

headers=$(ninja -C "$build" -t deps | sed -n 's#^ *\(/.*\)#\1#p' | sort -u)

# Packages of one source may share a file, and the links to it may be left out of an image.
file_of() {  # file_of PACKAGE
  # shellcheck disable=SC2016  # fields of dpkg
  for sibling in "$1" $(dpkg-query -W -f '${source:Package} ${Package}\n' |
      awk -v source="$(dpkg-query -W -f '${source:Package}' "$1")" '$1 == source {print $2}'); do
    if [ -f "/usr/share/doc/$sibling/copyright" ]; then echo "/usr/share/doc/$sibling/copyright"; return; fi
  done
}

licence() {  # licence PACKAGE FILE
  [ -f "$2" ] || { echo "error: $1 says nothing of its licence" >&2; exit 1; }
  mkdir -p "$out/usr/share/doc/$1"
  cp -L "$2" "$out/usr/share/doc/$1/copyright"
}

for package in $(echo "$headers" | grep '^/usr/\(include\|lib\|aarch64-linux-gnu\)/' | xargs dpkg -S 2>/dev/null |
    sed 's/: .*//; s/, /\n/g' | sed 's/:.*//' | sort -u); do
  # shellcheck disable=SC2016  # fields of dpkg
  dpkg-query -W -f 'Package: ${Package}\nStatus: install ok installed\nArchitecture: ${Architecture}\nVersion: ${Version}\n\n' \
    "$package" >>"$list"
  licence "$package" "$(file_of "$package")"
done

folder=$(echo "$headers" | sed -n 's#^\(.*/pybind11-[0-9.]*\)/.*#\1#p' | sort -u)
if [ -n "$folder" ]; then
  printf 'Package: pybind11\nStatus: install ok installed\nOrigin: pypi\nVersion: %s\n\n' "${folder##*-}" >>"$list"
  licence pybind11 "$(echo "$folder"/pybind11-*.dist-info/licenses/LICENSE)"
fi
grep -q '^Package: libasio-dev$\|^Package: pybind11$' "$list" || { echo "error: $build has read no header of a library" >&2; exit 1; }
