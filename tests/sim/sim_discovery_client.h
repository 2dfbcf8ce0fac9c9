/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A host's discovery client for simulated worlds: keeps one discovery controller connected, reads
 * its log, reads it again whenever the controller says that it has changed, and connects again when
 * it is lost. One reactor, on which all of this runs; its memory is that of the reactor's process
 * and goes with it.
 */
#ifndef WEFT_TESTS_SIM_DISCOVERY_CLIENT_H
#define WEFT_TESTS_SIM_DISCOVERY_CLIENT_H

#include "host/host.h"
#include "wire/log_page.h"

#define SIM_DISCOVERY_ENTRIES_MAX 48

struct sim_discovery_client;

struct sim_discovery_options {
	struct net_addr addr;
	char host_nqn[NVME_NQN_BYTES];
	struct uuid host_id;
	uint32_t kato_ms;      /* 1000 when 0 */
	uint32_t reconnect_ms; /* between attempts; 100 when 0 */
	bool has_digests;
	/* The entries were read anew, whether they differ or not. May be NULL. */
	void (*read)(void *arg, struct sim_discovery_client *client);
	void *arg;
};

/* Connects at once. NULL: out of memory. */
struct sim_discovery_client *
sim_discovery_client_create(struct reactor *reactor, const struct sim_discovery_options *options);
/* Disconnects in good order; `gone` is the last callback, never from inside of this. */
void sim_discovery_client_destroy(struct sim_discovery_client *client, void (*gone)(void *arg),
				  void *arg);

/* Of the last log that was read as a whole; kept while there is no controller. */
const struct discovery_entry *
sim_discovery_client_entries(const struct sim_discovery_client *client, unsigned *ret_count);
uint64_t sim_discovery_client_generation(const struct sim_discovery_client *client);
/* Change events that were heard, and controllers lost. */
uint64_t sim_discovery_client_events(const struct sim_discovery_client *client);
uint64_t sim_discovery_client_losses(const struct sim_discovery_client *client);
/* A controller is connected, and its log was read since the last event. */
bool sim_discovery_client_is_current(const struct sim_discovery_client *client);

#endif
