/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the NSIDs of a subsystem stood for before, carried from snapshot to snapshot: how the target
 * knows that an NSID was given to another namespace, however many changes lie between the end of
 * the former one and the making of the next.
 */
#ifndef WEFT_TARGET_NSID_HISTORY_H
#define WEFT_TARGET_NSID_HISTORY_H

#include "target/target.h"

/* The last namespace of an NSID that has none now. */
struct nsid_former {
	uint32_t nsid;
	struct uuid uuid;
	uint64_t identity_generation; /* that it had */
	uint64_t gone_generation;     /* of the first snapshot without it */
};

/*
 * Control reactor, before reactors see `is`: fills in the identity_generation of its namespaces and
 * of the subsystem, and its formers. `generation` is that of its snapshot. 0 or -ENOMEM.
 */
int nsid_history_carry(const struct subsystem *was, struct subsystem *is, uint64_t generation);

#endif
