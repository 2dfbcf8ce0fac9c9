/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The discovery client of simulated hosts (sim_discovery_client.h). On the host's reactor.
 *
 * The client reads the log with two commands: first the header, which has the number of entries,
 * then the whole log. If the generations of the two differ, or an event arrived in between, the
 * client reads the log again: it shows only entries of one generation.
 */
#include "sim_discovery_client.h"

#include "base/check.h"
#include "base/clock.h"
#include "base/text.h"

#include <errno.h>
#include <stdlib.h>

#define LOG_BYTES_MAX                                                                              \
	(LOG_DISCOVERY_HEADER_BYTES + SIM_DISCOVERY_ENTRIES_MAX * LOG_DISCOVERY_ENTRY_BYTES)

struct sim_discovery_client {
	struct reactor *reactor;
	struct sim_discovery_options options;
	struct host_ctrl *ctrl; /* NULL: the timer is armed, or the controller is being freed */
	struct reactor_timer timer;
	struct host_cmd cmd;
	struct discovery_header header; /* read by the first command */
	bool is_connected;
	bool is_reading;
	bool is_wanted; /* the log changed after the read began, or was never read */
	bool is_leaving;
	void (*gone)(void *arg);
	void *gone_arg;
	uint64_t generation;
	struct discovery_entry entries[SIM_DISCOVERY_ENTRIES_MAX];
	unsigned entry_count;
	uint64_t events;
	uint64_t losses;
	uint8_t log[LOG_BYTES_MAX];
};

static void client_read(struct sim_discovery_client *client);
static void client_connect(struct sim_discovery_client *client);

/* ---- the end --------------------------------------------------------------------------------- */

static void client_free(struct sim_discovery_client *client)
{
	void (*gone)(void *arg) = client->gone;
	void *arg = client->gone_arg;

	free(client);
	gone(arg);
}

static void on_ctrl_gone(void *arg)
{
	struct sim_discovery_client *client = arg;
	uint32_t wait_ms = client->options.reconnect_ms;

	client->ctrl = NULL;
	if (client->is_leaving)
		client_free(client);
	else
		reactor_timer_arm(&client->timer,
				  reactor_now_ns(client->reactor) + wait_ms * NS_PER_MS);
}

static void ctrl_drop(struct sim_discovery_client *client)
{
	CHECK(client->is_connected && !client->is_reading);
	client->is_connected = false;
	host_disconnect(client->ctrl, on_ctrl_gone, client);
}

/* ---- reading --------------------------------------------------------------------------------- */

static void entries_take(struct sim_discovery_client *client)
{
	client->generation = client->header.generation;
	client->entry_count = (unsigned)client->header.entry_count;
	for (unsigned i = 0; i < client->entry_count; i++)
		log_discovery_entry_decode(client->log + LOG_DISCOVERY_HEADER_BYTES +
						   (size_t)i * LOG_DISCOVERY_ENTRY_BYTES,
					   &client->entries[i]);
	if (client->options.read)
		client->options.read(client->options.arg, client);
}

/* True: the read has ended and its data must not be used. */
static bool reading_is_void(struct sim_discovery_client *client)
{
	nvme_status status = client->cmd.status;

	if (nvme_status_is_ok(status) && !client->is_leaving)
		return false;
	client->is_reading = false;
	/* A controller that is not live will report `lost`. */
	if (!host_ctrl_is_live(client->ctrl))
		return true;
	if (nvme_status_same(status, NVME_SC_DISCOVERY_RESTART) && !client->is_leaving)
		client_read(client);
	else
		ctrl_drop(client);
	return true;
}

static void on_log(struct host_cmd *cmd)
{
	struct sim_discovery_client *client = container_of(cmd, struct sim_discovery_client, cmd);
	struct discovery_header again;

	if (reading_is_void(client))
		return;
	log_discovery_header_decode(client->log, &again);
	client->is_reading = false;
	if (again.generation != client->header.generation ||
	    again.entry_count != client->header.entry_count) {
		client_read(client);
		return;
	}
	entries_take(client);
	if (client->is_wanted && client->is_connected)
		client_read(client);
}

static void on_header(struct host_cmd *cmd)
{
	struct sim_discovery_client *client = container_of(cmd, struct sim_discovery_client, cmd);
	uint32_t bytes;

	if (reading_is_void(client))
		return;
	log_discovery_header_decode(client->log, &client->header);
	CHECK(client->header.entry_count <= SIM_DISCOVERY_ENTRIES_MAX);
	bytes = LOG_DISCOVERY_HEADER_BYTES +
		(uint32_t)client->header.entry_count * LOG_DISCOVERY_ENTRY_BYTES;
	host_cmd_log(cmd, 0, LOG_DISCOVERY, 0, client->log, bytes);
	cmd->done = on_log;
	host_submit_admin(client->ctrl, cmd);
}

static void client_read(struct sim_discovery_client *client)
{
	client->is_wanted = true;
	if (client->is_reading || !client->is_connected || client->is_leaving)
		return;
	client->is_wanted = false;
	client->is_reading = true;
	host_cmd_log(&client->cmd, 0, LOG_DISCOVERY, 0, client->log, LOG_DISCOVERY_HEADER_BYTES);
	client->cmd.done = on_header;
	host_submit_admin(client->ctrl, &client->cmd);
}

/* ---- the controller -------------------------------------------------------------------------- */

static void on_connected(struct host_ctrl *ctrl, void *arg, int res, const struct host_error *error)
{
	struct sim_discovery_client *client = arg;

	if (res < 0) {
		on_ctrl_gone(client);
		return;
	}
	client->is_connected = true;
	if (client->is_leaving)
		ctrl_drop(client);
	else
		client_read(client);
}

static void on_lost(struct host_ctrl *ctrl, void *arg, const struct host_error *error)
{
	struct sim_discovery_client *client = arg;

	client->losses++;
	if (client->is_connected)
		ctrl_drop(client);
}

static void on_event(struct host_ctrl *ctrl, void *arg, const struct async_event *event)
{
	struct sim_discovery_client *client = arg;

	if (event->log_id != LOG_DISCOVERY)
		return;
	client->events++;
	client_read(client);
}

static void client_connect(struct sim_discovery_client *client)
{
	static const struct host_callbacks callbacks = {
		.connected = on_connected, .lost = on_lost, .event = on_event};
	struct host_config config = {
		.addr.net = client->options.addr,
		.host_id = client->options.host_id,
		.kato_ms = client->options.kato_ms,
		.connect_timeout_ms = 3 * client->options.kato_ms,
		.command_timeout_ms = 3 * client->options.kato_ms,
		.silence_timeout_ms = client->options.kato_ms,
		.wants_header_digest = client->options.has_digests,
		.wants_data_digest = client->options.has_digests,
	};

	text_copy(config.subsystem_nqn, sizeof(config.subsystem_nqn), NVME_DISCOVERY_NQN);
	text_copy(config.host_nqn, sizeof(config.host_nqn), client->options.host_nqn);
	client->is_wanted = true;
	if (host_connect(client->reactor, &config, &callbacks, client, &client->ctrl) < 0)
		on_ctrl_gone(client);
}

static void on_timer(struct reactor_timer *timer)
{
	struct sim_discovery_client *client =
		container_of(timer, struct sim_discovery_client, timer);

	if (client->is_leaving)
		client_free(client);
	else
		client_connect(client);
}

struct sim_discovery_client *
sim_discovery_client_create(struct reactor *reactor, const struct sim_discovery_options *options)
{
	struct sim_discovery_client *client = calloc(1, sizeof(*client));

	if (!client)
		return NULL;
	client->reactor = reactor;
	client->options = *options;
	client->options.kato_ms = options->kato_ms ? options->kato_ms : 1000;
	client->options.reconnect_ms = options->reconnect_ms ? options->reconnect_ms : 100;
	reactor_timer_init(reactor, &client->timer, on_timer);
	client_connect(client);
	return client;
}

void sim_discovery_client_destroy(struct sim_discovery_client *client, void (*gone)(void *arg),
				  void *arg)
{
	CHECK(!client->is_leaving);
	client->is_leaving = true;
	client->gone = gone;
	client->gone_arg = arg;
	if (client->timer.armed)
		reactor_timer_arm(&client->timer, reactor_now_ns(client->reactor));
	else if (client->is_connected && !client->is_reading)
		ctrl_drop(client);
}

/* ---- what it knows --------------------------------------------------------------------------- */

const struct discovery_entry *
sim_discovery_client_entries(const struct sim_discovery_client *client, unsigned *ret_count)
{
	*ret_count = client->entry_count;
	return client->entries;
}

uint64_t sim_discovery_client_generation(const struct sim_discovery_client *client)
{
	return client->generation;
}

uint64_t sim_discovery_client_events(const struct sim_discovery_client *client)
{
	return client->events;
}

uint64_t sim_discovery_client_losses(const struct sim_discovery_client *client)
{
	return client->losses;
}

bool sim_discovery_client_is_current(const struct sim_discovery_client *client)
{
	return client->is_connected && !client->is_reading && !client->is_wanted;
}
