/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Converts the host lists of namespaces into masks. Every host in any list has a place in the
 * snapshot's sorted table. A namespace has a bit for each of them and one for all other hosts.
 * Namespaces with the same bits share one mask.
 *
 * Control thread only. Thousands of namespaces with the same few hosts are common, so masks are
 * found by content in a tree.
 */
#include "config/config_mask.h"

#include <errno.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>

static int by_name(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static size_t mask_words(unsigned host_count)
{
	return (host_count + 63) / 64;
}

static size_t mask_bytes(unsigned host_count)
{
	return sizeof(struct ns_mask) + mask_words(host_count) * sizeof(uint64_t);
}

/* All masks of a snapshot have the same number of words. */
static int by_content(const void *a, const void *b)
{
	const struct ns_mask *x = a, *y = b;

	if (x->has_others != y->has_others)
		return x->has_others ? 1 : -1;
	return memcmp(x->words, y->words, mask_words(x->host_count) * sizeof(uint64_t));
}

static size_t names_count(const struct config *config)
{
	size_t count = 0;

	for (unsigned s = 0; s < config->subsystem_count; s++) {
		const struct config_subsystem *subsystem = &config->subsystems[s];

		for (unsigned i = 0; i < subsystem->ns_count; i++)
			count += subsystem->namespaces[i].host_count +
				 subsystem->namespaces[i].hidden_count;
	}
	return count;
}

static void names_collect(const struct config *config, const char **names)
{
	size_t count = 0;

	for (unsigned s = 0; s < config->subsystem_count; s++) {
		const struct config_subsystem *subsystem = &config->subsystems[s];

		for (unsigned i = 0; i < subsystem->ns_count; i++) {
			const struct config_ns *ns = &subsystem->namespaces[i];

			for (unsigned h = 0; h < ns->host_count; h++)
				names[count++] = ns->hosts[h];
			for (unsigned h = 0; h < ns->hidden_count; h++)
				names[count++] = ns->hidden_from[h];
		}
	}
}

static int hosts_fill(struct snapshot *snapshot, const struct config *config)
{
	size_t count = names_count(config), unique = 0;
	const char **names = calloc(count + 1, sizeof(char *));

	if (!names)
		return -ENOMEM;
	names_collect(config, names);
	qsort(names, count, sizeof(char *), by_name);
	for (size_t i = 0; i < count; i++) {
		if (unique == 0 || strcmp(names[unique - 1], names[i]) != 0)
			names[unique++] = names[i];
	}
	snapshot->mask_hosts = calloc(unique + 1, sizeof(*snapshot->mask_hosts));
	if (!snapshot->mask_hosts) {
		free(names);
		return -ENOMEM;
	}
	for (size_t i = 0; i < unique; i++)
		memcpy(snapshot->mask_hosts[i], names[i], strlen(names[i]) + 1);
	snapshot->mask_host_count = (unsigned)unique;
	free(names);
	return 0;
}

int mask_builder_init(struct mask_builder *builder, const struct config *config,
		      struct snapshot *snapshot)
{
	unsigned ns_count = 0;
	int res;

	*builder = (struct mask_builder){.snapshot = snapshot};
	res = hosts_fill(snapshot, config);
	if (res < 0)
		return res;
	for (unsigned s = 0; s < config->subsystem_count; s++)
		ns_count += config->subsystems[s].ns_count;
	builder->room = ns_count;
	snapshot->masks = calloc(ns_count + 1, sizeof(struct ns_mask *));
	snapshot->labels = calloc(ns_count + 1, sizeof(char *));
	builder->scratch = calloc(1, mask_bytes(snapshot->mask_host_count));
	if (!snapshot->masks || !snapshot->labels || !builder->scratch)
		return -ENOMEM;
	return 0;
}

static void mask_fill(const struct snapshot *snapshot, const struct config_ns *ns,
		      struct ns_mask *mask)
{
	unsigned count = snapshot->mask_host_count;

	memset(mask, 0, mask_bytes(count));
	mask->host_count = count;
	mask->has_others = !ns->is_masked;
	for (unsigned i = 0; !ns->is_masked && i < count; i++)
		mask->words[i / 64] |= 1ull << (i % 64);
	for (unsigned i = 0; i < ns->host_count; i++) {
		uint32_t at = snapshot_host_index(snapshot, ns->hosts[i]);

		mask->words[at / 64] |= 1ull << (at % 64);
	}
	for (unsigned i = 0; i < ns->hidden_count; i++) {
		uint32_t at = snapshot_host_index(snapshot, ns->hidden_from[i]);

		mask->words[at / 64] &= ~(1ull << (at % 64));
	}
}

int mask_builder_get(struct mask_builder *builder, const struct config_ns *ns,
		     const struct ns_mask **ret_mask)
{
	struct snapshot *snapshot = builder->snapshot;
	size_t bytes = mask_bytes(snapshot->mask_host_count);
	struct ns_mask **found, *mask;

	*ret_mask = NULL;
	if (!ns->is_masked && ns->hidden_count == 0)
		return 0;
	mask_fill(snapshot, ns, builder->scratch);
	found = tfind(builder->scratch, &builder->known, by_content);
	if (found) {
		*ret_mask = *found;
		return 0;
	}
	mask = malloc(bytes);
	if (!mask)
		return -ENOMEM;
	memcpy(mask, builder->scratch, bytes);
	CHECK(snapshot->mask_count < builder->room);
	snapshot->masks[snapshot->mask_count++] = mask;
	if (!tsearch(mask, &builder->known, by_content))
		return -ENOMEM;
	*ret_mask = mask;
	return 0;
}

static void keep_it(void *mask)
{
}

void mask_builder_end(struct mask_builder *builder)
{
	tdestroy(builder->known, keep_it);
	free(builder->scratch);
}
