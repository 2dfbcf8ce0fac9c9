/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which hosts see a namespace: converts names in the document into bits in a snapshot. Control
 * thread only; private to the control plane.
 */
#ifndef WEFT_CONFIG_CONFIG_MASK_H
#define WEFT_CONFIG_CONFIG_MASK_H

#include "config/config.h"

struct mask_builder {
	struct snapshot *snapshot;
	void *known; /* tree of tsearch: masks made so far, by content */
	struct ns_mask *scratch;
	unsigned room; /* capacity for masks, and for labels */
};

/* Collects all hosts in the lists. Call mask_builder_get for each namespace afterwards. 0 or
 * -ENOMEM; call mask_builder_end in both cases. */
int mask_builder_init(struct mask_builder *builder, const struct config *config,
		      struct snapshot *snapshot);
/* 0 or -ENOMEM. The snapshot owns *ret_mask and shares it among namespaces. NULL: all hosts see the
 * namespace. */
int mask_builder_get(struct mask_builder *builder, const struct config_ns *ns,
		     const struct ns_mask **ret_mask);
void mask_builder_end(struct mask_builder *builder);

#endif
