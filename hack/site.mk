# The website of the documentation. Included by the root Makefile.

.PHONY: site site-serve site-publish test-site

site: ## build/site: the documentation as a website
	@hack/site/site.sh build

site-serve: ## The website at http://127.0.0.1:8000, rebuilt while you edit pages
	@hack/site/site.sh serve

site-publish: ## Commit the website of this version to gh-pages, and push it
	@hack/site/site.sh publish

test-site: ## Build the website, follow every link, deploy it to a copy
	@echo "==> the website"
	@hack/site/site.sh test

lint-python: lint-site

.PHONY: lint-site
lint-site:
	@cd dataplane && ruff check --config pyproject.toml ../hack/site && \
		ruff format --check --config pyproject.toml ../hack/site && \
		MYPYPATH=../hack/site mypy $(addprefix ../hack/site/,commonmark.py links.py pages.py)
