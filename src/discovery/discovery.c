/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes the discovery log page directly from the snapshot: a header, one entry for the discovery
 * service on the port where the host asks, then one entry per port and subsystem that this host may
 * use. No state is kept between reads: the log is a pure function of the snapshot, the host and the
 * address it reached, so a read at any offset needs no memory.
 *
 * Runs on the data reactor that owns the asking controller; snapshots are immutable. NVMe Base 2.1,
 * section 5.1.12.3.1 (discovery log page), NVMe/TCP 1.1, section 3.1.1.
 */
#include "discovery/discovery.h"

#include "base/text.h"
#include "target/transport.h"

#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#define DISCOVERY_ADMIN_QUEUE_SIZE 32

/* The part of the log that the host asked for, and the number of entries so far. */
struct discovery_window {
	uint8_t *buf;
	uint64_t offset;
	uint64_t end;
	uint64_t entry_count;
};

static void window_put(struct discovery_window *window, uint64_t at, const uint8_t *bytes,
		       uint32_t len_bytes)
{
	uint64_t from = at > window->offset ? at : window->offset;
	uint64_t to = at + len_bytes < window->end ? at + len_bytes : window->end;

	if (from < to)
		memcpy(window->buf + (from - window->offset), bytes + (from - at), to - from);
}

static void window_put_entry(struct discovery_window *window, const struct discovery_entry *entry)
{
	uint64_t at = LOG_DISCOVERY_HEADER_BYTES + window->entry_count * LOG_DISCOVERY_ENTRY_BYTES;
	uint8_t bytes[LOG_DISCOVERY_ENTRY_BYTES];

	window->entry_count++;
	if (at >= window->end || at + LOG_DISCOVERY_ENTRY_BYTES <= window->offset)
		return;
	log_discovery_entry_encode(entry, bytes);
	window_put(window, at, bytes, sizeof(bytes));
}

/* An IPv4 host that reached a dual-stack listener has an address like ::ffff:10.0.0.1. */
static bool discovery_is_mapped(const struct net_addr *addr, struct in_addr *ret_v4)
{
	struct sockaddr_in6 v6;

	if (!net_addr_is_ipv6(addr))
		return false;
	memcpy(&v6, &addr->storage, sizeof(v6));
	if (!IN6_IS_ADDR_V4MAPPED(&v6.sin6_addr))
		return false;
	memcpy(ret_v4, v6.sin6_addr.s6_addr + 12, sizeof(*ret_v4));
	return true;
}

static void discovery_set_host(const struct net_addr *addr, struct discovery_entry *entry)
{
	struct net_addr plain = *addr;
	char text[NET_ADDR_TEXT_BYTES];
	struct in_addr v4;

	if (discovery_is_mapped(addr, &v4)) {
		struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr = v4};

		memcpy(&plain.storage, &in, sizeof(in));
		plain.len_bytes = sizeof(in);
	}
	net_addr_format_host(&plain, text);
	/* A scope ID is an interface number of this machine, which is meaningless to the host. */
	text[strcspn(text, "%")] = 0;
	text_copy(entry->address, sizeof(entry->address), text);
	entry->family = net_addr_is_ipv6(&plain) ? DISCOVERY_IPV6 : DISCOVERY_IPV4;
}

/* Whether a host that reached us at `local` can reach a listener on the any-address `any`. */
static bool discovery_any_covers(const struct net_addr *any, const struct net_addr *local)
{
	struct in_addr v4;

	/* "::" accepts IPv4 too. 0.0.0.0 accepts only IPv4; `local` may be an IPv4-mapped
	 * address. */
	return net_addr_is_ipv6(any) || !net_addr_is_ipv6(local) || discovery_is_mapped(local, &v4);
}

/* Sets address and service of `port` as this host should use them. False: unknown to this host. */
static bool discovery_set_address(const struct discovery_asker *asker, const struct port *port,
				  struct discovery_entry *entry)
{
	uint16_t service = net_addr_port(&port->listen);

	/* Port 0, any free port: known only if the host connected to this listener. */
	if (service == 0 && port->id == asker->port->id)
		service = net_addr_port(asker->local);
	if (service == 0)
		return false;
	snprintf(entry->service, sizeof(entry->service), "%u", service);
	if (port->advertise_address[0] != 0) {
		text_copy(entry->address, sizeof(entry->address), port->advertise_address);
		entry->family = strchr(entry->address, ':') ? DISCOVERY_IPV6 : DISCOVERY_IPV4;
		return true;
	}
	if (!net_addr_is_any(&port->listen)) {
		discovery_set_host(&port->listen, entry);
		return true;
	}
	if (!discovery_any_covers(&port->listen, asker->local))
		return false;
	discovery_set_host(asker->local, entry);
	return true;
}

static void discovery_add(const struct discovery_asker *asker, const struct port *port,
			  enum discovery_subtype subtype, const char *nqn,
			  struct discovery_window *window)
{
	uint32_t queue_size = asker->snapshot->limits.queue_size_max;
	struct discovery_entry entry = {
		.transport = port_transport(port)->trtype,
		.subtype = subtype,
		.can_disable_sq_flow_control = true,
		.port_id = port->id,
		.cntlid = NVME_CNTLID_ANY,
		.admin_queue_size = DISCOVERY_ADMIN_QUEUE_SIZE,
	};

	if (queue_size != 0 && queue_size < DISCOVERY_ADMIN_QUEUE_SIZE)
		entry.admin_queue_size = (uint16_t)queue_size;
	if (subtype == DISCOVERY_CURRENT)
		entry.flags = DISCOVERY_FLAG_EPCSD;
	if (!discovery_set_address(asker, port, &entry))
		return;
	text_copy(entry.subsystem_nqn, sizeof(entry.subsystem_nqn), nqn);
	window_put_entry(window, &entry);
}

uint64_t discovery_log_read(const struct discovery_asker *asker, uint64_t offset, uint8_t *buf,
			    uint32_t len_bytes)
{
	const struct snapshot *snapshot = asker->snapshot;
	struct discovery_window window = {.buf = buf, .offset = offset};
	struct discovery_header header = {.generation = snapshot->discovery_generation};
	uint8_t bytes[LOG_DISCOVERY_HEADER_BYTES];

	if (__builtin_add_overflow(offset, (uint64_t)len_bytes, &window.end))
		window.end = UINT64_MAX;
	if (len_bytes > 0)
		memset(buf, 0, len_bytes);
	discovery_add(asker, asker->port, DISCOVERY_CURRENT, NVME_DISCOVERY_NQN, &window);
	for (unsigned i = 0; i < snapshot->port_count; i++) {
		const struct port *offering = &snapshot->ports[i];

		if (offering->is_discovery_only)
			continue;
		for (unsigned s = 0; s < offering->subsystem_count; s++) {
			const struct subsystem *subsystem = offering->subsystems[s];

			if (subsystem_allows_host(subsystem, asker->host_nqn))
				discovery_add(asker, offering, DISCOVERY_NVM, subsystem->nqn,
					      &window);
		}
	}
	header.entry_count = window.entry_count;
	log_discovery_header_encode(&header, bytes);
	window_put(&window, 0, bytes, sizeof(bytes));
	return LOG_DISCOVERY_HEADER_BYTES + window.entry_count * LOG_DISCOVERY_ENTRY_BYTES;
}
