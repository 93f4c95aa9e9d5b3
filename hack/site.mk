# The website of the documentation. Included by the root Makefile.

.PHONY: site site-serve site-publish test-site

site: ## build/site: the documentation as a website
	@hack/site/site.sh build

site-serve: ## The same at http://127.0.0.1:8000, built anew while pages are edited
	@hack/site/site.sh serve

site-publish: ## Commit this version of the website to the branch gh-pages, and push that
	@hack/site/site.sh publish

test-site: ## Build the website strictly, follow every link, compare it with CommonMark, deploy it to a copy
	@echo "==> the website"
	@hack/site/site.sh test

lint-python: lint-site

.PHONY: lint-site
lint-site:
	@cd dataplane && ruff check --config pyproject.toml ../hack/site && \
		ruff format --check --config pyproject.toml ../hack/site && \
		MYPYPATH=../hack/site mypy $(addprefix ../hack/site/,commonmark.py links.py pages.py)
