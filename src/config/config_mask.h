/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who sees a namespace, from names in the document to bits in a snapshot. Control thread only;
 * private to the control plane.
 */
#ifndef WEFT_CONFIG_CONFIG_MASK_H
#define WEFT_CONFIG_CONFIG_MASK_H

#include "config/config.h"

struct mask_builder {
	struct snapshot *snapshot;
	void *known; /* tsearch's: masks made so far, by content */
	struct ns_mask *scratch;
	unsigned room; /* for masks, and for labels */
};

/* Collects the hosts that masks name; then one mask for each namespace. 0 or -ENOMEM. */
int mask_builder_init(struct mask_builder *builder, const struct config *config,
		      struct snapshot *snapshot);
/* The snapshot owns it and shares it among namespaces; NULL: everybody sees the namespace. */
int mask_builder_get(struct mask_builder *builder, const struct config_ns *ns,
		     const struct ns_mask **ret_mask);
void mask_builder_end(struct mask_builder *builder);

#endif
