# The website of the documentation. Included by the root Makefile.

.PHONY: site site-serve site-publish test-site

site: ## build/site: the documentation as a website
	@hack/release/site/site.sh build

site-serve: ## The website at http://127.0.0.1:8000, rebuilt while you edit pages
	@hack/release/site/site.sh serve

site-publish: ## Commit the website of this version to gh-pages, and push it
	@hack/release/site/site.sh publish

test-site: ## Build the website, follow every link, deploy it to a copy
	@echo "==> the website"
	@hack/release/site/site.sh test

lint-python: lint-site

.PHONY: lint-site
lint-site:
	@cd dataplane && ruff check --config pyproject.toml ../hack/release/site && \
		ruff format --check --config pyproject.toml ../hack/release/site && \
		MYPYPATH=../hack/release/site mypy $(addprefix ../hack/release/site/,commonmark.py links.py pages.py)
