/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The output of `weft serve` for people: what is exported, where, and the exact commands to
 * connect; for --check, what a configuration would export. Plain aligned text; headings are bold on
 * a terminal. Control reactor, or the main thread before the control reactor runs.
 */
#include "base/text.h"
#include "cli/print.h"
#include "cli/serve.h"
#include "target/transport.h"
#include "wire/nvme.h"

#include <inttypes.h>
#include <netinet/in.h>
#include <string.h>
#include <unistd.h>

static void heading_print(FILE *to, const char *text)
{
	bool is_tty = isatty(fileno(to));

	fprintf(to, "%s%s%s\n", is_tty ? "\033[1m" : "", text, is_tty ? "\033[0m" : "");
}

void serve_reachable_addr(const struct target *target, const struct port *port,
			  struct net_addr *ret_addr)
{
	struct net_addr bound = port->listen;

	target_port_addr(target, port->id, &bound);
	*ret_addr = bound;
	if (net_addr_is_any(&bound))
		net_addr_parse(net_addr_is_ipv6(&bound) ? "::1" : "127.0.0.1",
			       net_addr_port(&bound), ret_addr);
}

static void hosts_print(FILE *to, bool allows_any, char (*hosts)[NVME_NQN_BYTES], unsigned count)
{
	if (allows_any || count == 0) {
		fprintf(to, "    hosts  %s\n", allows_any ? "any" : "none");
		return;
	}
	for (unsigned i = 0; i < count; i++)
		fprintf(to, "    %-5s  %s\n", i == 0 ? "hosts" : "", cli_shown(hosts[i]));
}

static void subsystem_print(FILE *to, const struct subsystem *subsystem)
{
	char size[32];

	fprintf(to, "  %s\n", cli_shown(subsystem->nqn));
	hosts_print(to, subsystem->allows_any_host, subsystem->host_nqns, subsystem->host_count);
	for (unsigned i = 0; i < subsystem->ns_count; i++) {
		const struct ns *ns = &subsystem->namespaces[i];

		text_format_size(ns->block_count << ns->block_shift, size, sizeof(size));
		fprintf(to, "    ns %-4" PRIu32 "%10s  %4u-byte blocks  %s%s\n", ns->nsid, size,
			1u << ns->block_shift, cli_shown(ns->media->spec),
			ns->is_read_only ? "  (read only)" : "");
	}
	if (subsystem->ns_count == 0)
		fprintf(to, "    no namespaces\n");
}

static void port_print(FILE *to, const struct target *target, const struct port *port)
{
	char text[NET_ADDR_TEXT_BYTES];
	struct net_addr bound = port->listen;

	target_port_addr(target, port->id, &bound);
	fprintf(to, "  %-4s %-21s  port id %u", port_transport(port)->name,
		net_addr_format(&bound, text), port->id);
	if (port->is_discovery_only)
		fprintf(to, "  discovery only");
	if (port->advertise_address[0] != 0)
		fprintf(to, "  advertised as %s", port->advertise_address);
	fputc('\n', to);
}

static void address_text(const struct target *target, const struct port *port,
			 char host[NET_ADDR_TEXT_BYTES], uint16_t *ret_service)
{
	struct net_addr addr;

	serve_reachable_addr(target, port, &addr);
	*ret_service = net_addr_port(&addr);
	if (port->advertise_address[0] != 0)
		text_copy(host, NET_ADDR_TEXT_BYTES, port->advertise_address);
	else
		net_addr_format_host(&addr, host);
}

static void commands_print(FILE *to, const struct target *target, const struct snapshot *snapshot)
{
	char host[NET_ADDR_TEXT_BYTES];
	bool has_discover = false;
	const char *transport;
	uint16_t service;

	for (unsigned p = 0; p < snapshot->port_count; p++) {
		const struct port *port = &snapshot->ports[p];

		if (port->is_discovery_only)
			continue;
		address_text(target, port, host, &service);
		transport = port_transport(port)->name;
		if (!has_discover)
			fprintf(to, "  nvme discover -t %s -a %s -s %u\n", transport, host,
				service);
		has_discover = true;
		for (unsigned s = 0; s < port->subsystem_count; s++) {
			const char *nqn = port->subsystems[s]->nqn;

			fprintf(to, "  nvme connect -t %s -a %s -s %u -n %s\n", transport, host,
				service, cli_shown(nqn));
			fprintf(to, "  weft perf -a %s -s %u -n %s --rw randread\n", host, service,
				cli_shown(nqn));
		}
	}
}

void serve_banner_print(FILE *to, const struct target *target)
{
	const struct snapshot *snapshot = target_snapshot(target);

	heading_print(to, "Exported");
	for (unsigned i = 0; i < snapshot->subsystem_count; i++)
		subsystem_print(to, snapshot->subsystems[i]);
	heading_print(to, "Listening");
	for (unsigned i = 0; i < snapshot->port_count; i++)
		port_print(to, target, &snapshot->ports[i]);
	heading_print(to, "Connect with");
	commands_print(to, target, snapshot);
	fflush(to);
}

static void config_port_print(FILE *to, const struct config_port *port)
{
	char text[NET_ADDR_TEXT_BYTES];

	fprintf(to, "  %-4s %-21s  port id %u", transport_of(port->transport)->name,
		net_addr_format(&port->listen, text), port->id);
	if (port->advertise[0] != 0)
		fprintf(to, "  advertised as %s", port->advertise);
	if (port->is_discovery_only)
		fprintf(to, "  discovery only\n");
	else if (port->offers_all)
		fprintf(to, "  offers all subsystems\n");
	else
		fprintf(to, "  offers %u subsystem%s\n", port->subsystem_count,
			port->subsystem_count == 1 ? "" : "s");
	for (unsigned i = 0; i < port->subsystem_count; i++)
		fprintf(to, "       %s\n", cli_shown(port->subsystems[i]));
	for (unsigned i = 0; i < port->ana_count; i++)
		fprintf(to, "       ANA group %" PRIu32 " is %s\n", port->ana[i].group,
			ana_state_name(port->ana[i].state));
}

/* Shown for an identity that the document leaves out: it is random, or saved by an earlier
 * start. */
#define IDENTITY_MADE "made at the first start"

void serve_config_print(FILE *to, const struct config *config)
{
	char uuid[UUID_TEXT_BYTES];

	heading_print(to, "Would export");
	for (unsigned i = 0; i < config->subsystem_count; i++) {
		const struct config_subsystem *subsystem = &config->subsystems[i];
		const char *serial =
			subsystem->serial[0] ? cli_shown(subsystem->serial) : IDENTITY_MADE;

		fprintf(to, "  %s\n    serial %s  model %s\n", cli_shown(subsystem->nqn), serial,
			cli_shown(subsystem->model));
		hosts_print(to, subsystem->allows_any_host, subsystem->hosts,
			    subsystem->host_count);
		for (unsigned n = 0; n < subsystem->ns_count; n++) {
			const struct config_ns *ns = &subsystem->namespaces[n];

			fprintf(to, "    ns %-4" PRIu32 "%s  uuid %s  ANA group %" PRIu32 "%s\n",
				ns->nsid, cli_shown(ns->media),
				uuid_is_nil(&ns->uuid) ? IDENTITY_MADE
						       : uuid_format(&ns->uuid, uuid),
				ns->ana_group, ns->is_read_only ? "  (read only)" : "");
		}
		if (subsystem->ns_count == 0)
			fprintf(to, "    no namespaces\n");
	}
	heading_print(to, "Would listen on");
	for (unsigned i = 0; i < config->port_count; i++)
		config_port_print(to, &config->ports[i]);
	fflush(to);
}
