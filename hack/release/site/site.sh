#!/usr/bin/env bash
# The website of the documentation.
#
#   hack/release/site/site.sh build      build/site, strictly; and a check of what was built
#   hack/release/site/site.sh serve      the same at http://127.0.0.1:8000, built anew while pages are edited
#   hack/release/site/site.sh deploy     a commit to the branch gh-pages, with this version beside the others
#   hack/release/site/site.sh publish    deploy, and push that branch
#   hack/release/site/site.sh test       build, and deploy to a copy of the repository
#
# SITE_URL, SITE_REPOSITORY and SITE_REF are those of a fork: where the site is, where sources are, at which tag.
set -euo pipefail
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$HERE/../../lib.sh"
export NO_MKDOCS_2_WARNING=1 PYTHONDONTWRITEBYTECODE=1

REQUIREMENTS=$HERE/requirements.txt
VENV=$PEERCACHE_CACHE/site/$({ cat "$REQUIREMENTS"; /usr/bin/python3 --version; } | sha256sum | cut -c1-16)
VERSION=$(cat "$PEERCACHE_ROOT/VERSION")

install() { virtual_environment mkdocs "$VENV" "$REQUIREMENTS"; }

build() {
  rm -rf build/site
  "$VENV/bin/mkdocs" build --quiet --strict
  "$VENV/bin/python" "$HERE/check.py" build/site
}

# A version of the site is MAJOR.MINOR: patches replace each other. A candidate is not the latest.
deploy() {  # deploy [--push]
  local aliases=(latest)
  [[ $VERSION != *-* ]] || aliases=()
  git fetch -q origin gh-pages 2>/dev/null || true  # there is none before the first version
  export GIT_COMMITTER_NAME=peercache GIT_COMMITTER_EMAIL=peercache@users.noreply.github.com
  export GIT_AUTHOR_NAME=$GIT_COMMITTER_NAME GIT_AUTHOR_EMAIL=$GIT_COMMITTER_EMAIL PATH=$VENV/bin:$PATH
  "$VENV/bin/mike" --quiet deploy --update-aliases --title "$VERSION" "$@" "${VERSION%.*}" "${aliases[@]}"
  [ ${#aliases[@]} = 0 ] ||
    "$VENV/bin/mike" --quiet set-default "$@" latest
}

# To a branch of a clone, from which the versions are then read as a browser would.
test_deploy() {
  local page
  copy=$(mktemp -d)  # not local: the trap needs it
  trap 'rm -rf "$copy"' EXIT
  git init -q --bare "$copy/origin"
  git clone -q "$copy/origin" "$copy/clone" 2>/dev/null
  git ls-files --cached --others --exclude-standard -z | xargs -0 cp --parents -t "$copy/clone"
  cd "$copy/clone"
  git add -A
  git -c user.name=a -c user.email=a@example.com commit -qm tree
  deploy --push
  git --git-dir="$copy/origin" show gh-pages:versions.json >"$copy/versions.json"
  jq -e --arg version "${VERSION%.*}" '.[0].version == $version' "$copy/versions.json" >/dev/null ||
    die "versions.json does not begin with ${VERSION%.*}" "look at $(cat "$copy/versions.json")"
  for page in index.html "${VERSION%.*}/index.html" latest/install/index.html latest/search/search_index.json; do
    git --git-dir="$copy/origin" cat-file -e "gh-pages:$page" || die "the branch gh-pages has no $page" "look at mkdocs.yml"
  done
  note "gh-pages has ${VERSION%.*} and latest"
}

cd "$PEERCACHE_ROOT"
install
case ${1:-} in
  build) build ;;
  serve) exec "$VENV/bin/mkdocs" serve ;;
  deploy) deploy ;;
  publish) deploy --push ;;
  test) build && test_deploy ;;
  *) die "unknown command '${1:-}'" "hack/release/site/site.sh build|serve|deploy|publish|test" ;;
esac
