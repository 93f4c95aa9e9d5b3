# Targets that build the images. Included by the root Makefile.

.PHONY: images images-load

images: ## Build all images as docker archives (cached); IMAGES="operator dataplane" for some
	hack/images/build-images.sh $(IMAGES)

images-load: images ## Build them and load them into the cluster
	hack/images/load-images.sh $(IMAGES)
