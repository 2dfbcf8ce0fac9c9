/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A host's discovery client for simulated worlds: keeps one discovery controller connected, reads
 * its log, reads it again after each change event, and reconnects when the controller is lost. Runs
 * on one reactor. Its memory belongs to that reactor's process and is freed with the process.
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
	uint32_t kato_ms;      /* 0: 1000 */
	uint32_t reconnect_ms; /* between attempts; 0: 100 */
	bool has_digests;
	/* The whole log was read, changed or not. May be NULL. */
	void (*read)(void *arg, struct sim_discovery_client *client);
	void *arg;
};

/* Connects at once. NULL: out of memory. */
struct sim_discovery_client *
sim_discovery_client_create(struct reactor *reactor, const struct sim_discovery_options *options);
/* Disconnects properly. `gone` is the last callback, never called before destroy returns. */
void sim_discovery_client_destroy(struct sim_discovery_client *client, void (*gone)(void *arg),
				  void *arg);

/* Entries of the last complete read; kept while no controller is connected. */
const struct discovery_entry *
sim_discovery_client_entries(const struct sim_discovery_client *client, unsigned *ret_count);
uint64_t sim_discovery_client_generation(const struct sim_discovery_client *client);
/* Numbers of change events received and of controllers lost. */
uint64_t sim_discovery_client_events(const struct sim_discovery_client *client);
uint64_t sim_discovery_client_losses(const struct sim_discovery_client *client);
/* True: a controller is connected, and its log was read after the last event. */
bool sim_discovery_client_is_current(const struct sim_discovery_client *client);

#endif
