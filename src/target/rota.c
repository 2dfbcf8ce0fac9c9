/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hosts take turns. See rota.h. A host is in the rota while any of its entries waits or runs, so a
 * search by NQN covers only such hosts. Runs on the control reactor.
 */
#include "target/rota.h"

#include "base/check.h"
#include "wire/identify.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct rota_host {
	struct list node;    /* in rota->ready or rota->held */
	struct list entries; /* waiting entries, oldest first */
	unsigned waiting;
	unsigned running;
	bool is_ready;
	char nqn[NVME_NQN_BYTES];
};

void rota_init(struct rota *rota, const struct rota_limits *limits)
{
	*rota = (struct rota){.limits = *limits};
	list_init(&rota->ready);
	list_init(&rota->held);
}

static struct rota_host *host_find(struct list *hosts, const char *nqn)
{
	list_for_each(node, hosts) {
		struct rota_host *host = list_entry(node, struct rota_host, node);

		if (strcmp(host->nqn, nqn) == 0)
			return host;
	}
	return NULL;
}

static struct rota_host *host_get(struct rota *rota, const char *nqn)
{
	struct rota_host *host = host_find(&rota->ready, nqn);

	if (!host)
		host = host_find(&rota->held, nqn);
	if (host)
		return host;
	host = calloc(1, sizeof(*host));
	if (!host)
		return NULL;
	snprintf(host->nqn, sizeof(host->nqn), "%s", nqn);
	list_init(&host->entries);
	list_push_back(&rota->held, &host->node);
	return host;
}

/* Call after a change of the host's counts. A host that becomes ready goes to the end of the line;
 * a host that stays ready keeps its place. Frees a host without entries. */
static void host_settle(struct rota *rota, struct rota_host *host)
{
	bool is_ready = host->waiting > 0 && host->running < rota->limits.running_per_host;

	if (host->waiting == 0 && host->running == 0) {
		list_remove(&host->node);
		free(host);
	} else if (is_ready != host->is_ready) {
		host->is_ready = is_ready;
		list_remove(&host->node);
		list_push_back(is_ready ? &rota->ready : &rota->held, &host->node);
	}
}

static bool host_has_room(const struct rota *rota, const struct rota_host *host)
{
	const struct rota_limits *limits = &rota->limits;

	return host->waiting < limits->waiting_min ||
	       (host->waiting < limits->waiting_per_host && rota->waiting < limits->waiting_total);
}

int rota_add(struct rota *rota, const char *host_nqn, struct rota_entry *entry)
{
	struct rota_host *host = host_get(rota, host_nqn);

	entry->host = NULL;
	if (!host)
		return -ENOMEM;
	if (!host_has_room(rota, host)) {
		host_settle(rota, host);
		return -EBUSY;
	}
	entry->host = host;
	list_push_back(&host->entries, &entry->node);
	host->waiting++;
	rota->waiting++;
	host_settle(rota, host);
	return 0;
}

static void entry_unlink(struct rota *rota, struct rota_entry *entry)
{
	list_remove(&entry->node);
	entry->host->waiting--;
	rota->waiting--;
}

struct rota_entry *rota_peek(const struct rota *rota)
{
	struct rota_host *host;

	if (list_empty(&rota->ready))
		return NULL;
	host = list_entry(rota->ready.next, struct rota_host, node);
	return list_entry(host->entries.next, struct rota_entry, node);
}

struct rota_entry *rota_take(struct rota *rota)
{
	struct rota_entry *entry = rota_peek(rota);
	struct rota_host *host;

	if (!entry)
		return NULL;
	host = entry->host;
	entry_unlink(rota, entry);
	host->running++;
	list_remove(&host->node);
	list_push_back(&rota->ready, &host->node);
	host_settle(rota, host);
	return entry;
}

bool rota_is_ready(const struct rota *rota)
{
	return !list_empty(&rota->ready);
}

bool rota_is_waiting(const struct rota_entry *entry)
{
	return entry->host && list_linked(&entry->node);
}

void rota_leave(struct rota *rota, struct rota_entry *entry)
{
	struct rota_host *host = entry->host;

	if (!host)
		return;
	if (list_linked(&entry->node)) {
		entry_unlink(rota, entry);
	} else {
		CHECK(host->running > 0);
		host->running--;
	}
	entry->host = NULL;
	host_settle(rota, host);
}

static void host_sweep(struct rota *rota, struct rota_host *host,
		       bool (*is_unwanted)(const struct rota_entry *entry),
		       struct list *ret_unwanted)
{
	list_for_each_safe(node, &host->entries) {
		struct rota_entry *entry = list_entry(node, struct rota_entry, node);

		if (is_unwanted(entry)) {
			entry_unlink(rota, entry);
			entry->host = NULL;
			list_push_back(ret_unwanted, &entry->node);
		}
	}
	host_settle(rota, host);
}

void rota_sweep(struct rota *rota, bool (*is_unwanted)(const struct rota_entry *entry),
		struct list *ret_unwanted)
{
	list_init(ret_unwanted);
	list_for_each_safe(node, &rota->ready) {
		host_sweep(rota, list_entry(node, struct rota_host, node), is_unwanted,
			   ret_unwanted);
	}
	list_for_each_safe(node, &rota->held) {
		host_sweep(rota, list_entry(node, struct rota_host, node), is_unwanted,
			   ret_unwanted);
	}
}
