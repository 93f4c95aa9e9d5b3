"""The layouts that SGLang's host pools have. Loads no torch, which takes seconds."""

LAYOUTS = {
    "mha": ("page_first", "page_first_direct", "page_head", "layer_first"),
    "mla": ("page_first", "page_first_direct", "layer_first"),
}
