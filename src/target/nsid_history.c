/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which namespaces the NSIDs of a subsystem had before. See nsid_history.h and docs/adr/0033. Runs
 * on the control reactor. There is one entry per NSID without a namespace, so memory is bounded by
 * the number of NSIDs.
 */
#include "target/nsid_history.h"

#include <errno.h>
#include <stdlib.h>

/* The next entry, in ascending order of NSID, of all that `was` knows: its namespaces and its
 * formers, which have no NSID in common. At least one entry must be left. */
static struct nsid_former former_next(const struct subsystem *was, unsigned *at_ns,
				      unsigned *at_former, uint64_t generation)
{
	const struct ns *ns = *at_ns < was->ns_count ? &was->namespaces[*at_ns] : NULL;
	const struct nsid_former *former =
		*at_former < was->former_count ? &was->formers[*at_former] : NULL;

	if (!ns || (former && former->nsid < ns->nsid)) {
		++*at_former;
		return *former;
	}
	++*at_ns;
	return (struct nsid_former){.nsid = ns->nsid,
				    .uuid = ns->uuid,
				    .identity_generation = ns->identity_generation,
				    .gone_generation = generation};
}

/* Frees the unused part of the array. Most subsystems have no formers. */
static void formers_shrink(struct subsystem *is)
{
	struct nsid_former *less;

	if (is->former_count == 0) {
		free(is->formers);
		is->formers = NULL;
		return;
	}
	less = realloc(is->formers, is->former_count * sizeof(*less));
	if (less)
		is->formers = less;
}

int nsid_history_carry(const struct subsystem *was, struct subsystem *is, uint64_t generation)
{
	unsigned i = 0, f = 0, k = 0;

	is->formers = calloc(was->ns_count + was->former_count + 1, sizeof(*is->formers));
	if (!is->formers)
		return -ENOMEM;
	while (i < was->ns_count || f < was->former_count) {
		struct nsid_former former = former_next(was, &i, &f, generation);
		struct ns *ns;

		while (k < is->ns_count && is->namespaces[k].nsid < former.nsid)
			k++;
		ns = k < is->ns_count ? &is->namespaces[k] : NULL;
		if (!ns || ns->nsid != former.nsid) {
			is->formers[is->former_count++] = former;
			continue;
		}
		/* Controllers that connected after the former namespace was removed never knew
		 * it. */
		ns->identity_generation = uuid_equal(&ns->uuid, &former.uuid)
						  ? former.identity_generation
						  : former.gone_generation;
		if (ns->identity_generation > is->identity_generation)
			is->identity_generation = ns->identity_generation;
	}
	formers_shrink(is);
	return 0;
}
