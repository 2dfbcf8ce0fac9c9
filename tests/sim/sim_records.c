/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Puts records (../unit/xor_records.h) between every NVMe/TCP connection of the worlds and its
 * socket. The seed chooses their kind. Linked into weft_sim_records, where it wraps the engine's
 * accept and connect. Hosts, targets and checkers are unchanged.
 */
#include "../unit/xor_records.h"

#include "sim_internal.h"
#include "tcp/tcp.h"

#define KINDS 30 /* kinds that xor_config_of makes */

int __real_tcp_conn_accept(struct tcp_conn *conn, struct reactor *reactor, int taken_fd,
			   const struct tcp_conn_config *config,
			   const struct tcp_conn_handler *handler);
int __wrap_tcp_conn_accept(struct tcp_conn *conn, struct reactor *reactor, int taken_fd,
			   const struct tcp_conn_config *config,
			   const struct tcp_conn_handler *handler);
int __real_tcp_conn_connect(struct tcp_conn *conn, struct reactor *reactor,
			    const struct net_addr *addr, const struct tcp_conn_config *config,
			    const struct tcp_conn_handler *handler);
int __wrap_tcp_conn_connect(struct tcp_conn *conn, struct reactor *reactor,
			    const struct net_addr *addr, const struct tcp_conn_config *config,
			    const struct tcp_conn_handler *handler);

static struct tcp_conn_config with_records(const struct tcp_conn_config *config)
{
	static struct xor_config kinds[KINDS];
	struct tcp_conn_config changed = *config;
	unsigned kind = sim_seed(sim_now_running) % KINDS;

	if (kinds[kind].opened == 0)
		kinds[kind] = xor_config_of(kind);
	changed.records = &xor_records;
	changed.records_arg = &kinds[kind];
	return changed;
}

int __wrap_tcp_conn_accept(struct tcp_conn *conn, struct reactor *reactor, int taken_fd,
			   const struct tcp_conn_config *config,
			   const struct tcp_conn_handler *handler)
{
	struct tcp_conn_config changed = with_records(config);

	return __real_tcp_conn_accept(conn, reactor, taken_fd, &changed, handler);
}

int __wrap_tcp_conn_connect(struct tcp_conn *conn, struct reactor *reactor,
			    const struct net_addr *addr, const struct tcp_conn_config *config,
			    const struct tcp_conn_handler *handler)
{
	struct tcp_conn_config changed = with_records(config);

	return __real_tcp_conn_connect(conn, reactor, addr, &changed, handler);
}
