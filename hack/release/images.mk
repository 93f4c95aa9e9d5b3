# Targets that build the images. Included by the root Makefile.

.PHONY: images images-load

images: ## All images as docker archives (cached); IMAGES="operator dataplane"
	hack/release/images/build-images.sh $(IMAGES)

images-load: images ## Build them and load them into the cluster
	hack/release/images/load-images.sh $(IMAGES)

# The images of engine and embedded are for tests.
RELEASED = $(if $(IMAGES),$(filter-out engine embedded,$(IMAGES)),operator dataplane client)

.PHONY: sbom provenance

sbom: ## dist/release: what is in each image, as SPDX; IMAGES="operator"
	@hack/release/images/build-images.sh $(RELEASED)
	@hack/release/sbom.sh $(RELEASED)

provenance: ## dist/release: the commit of each image, as a statement to sign
	@hack/release/images/build-images.sh $(RELEASED)
	@hack/release/provenance.sh $(RELEASED)
