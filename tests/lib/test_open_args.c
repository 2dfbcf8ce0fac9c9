/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Paths from a discovery service: which entries of the log weft_open takes, what it logs about
 * entries whose transport this build does not have, and its error when no entry is left. The
 * session with the discovery controller is this test's.
 */
#include "lib/discovery_log.h"
#include "lib/lib.h"
#include "lib/session.h"

#include "../unit/tap.h"

#include <errno.h>
#include <stdlib.h>

#define NQN       "nqn.2026-11.io.weft:mixed"
#define OTHER_NQN "nqn.2026-11.io.weft:other"
#define ENTRIES   4

static struct discovery_entry entries[ENTRIES];
static unsigned entry_count;
static char logged[4096];
static unsigned logged_lines;
static struct weft_error error;
static struct weft weft;

/* ---- the discovery controller ---------------------------------------------------------------- */

int session_open(const struct host_config *config, struct session **ret_session,
		 struct host_error *ret_error)
{
	*ret_session = (struct session *)&entries;
	return 0;
}

void session_close(struct session *session)
{
}

nvme_status session_admin(struct session *session, struct host_cmd *cmd)
{
	const struct discovery_header header = {.generation = 1, .entry_count = entry_count};
	struct log_cmd log;
	uint8_t *to = cmd->data;

	log_cmd_decode(&cmd->sqe, &log);
	if (log.offset == 0) {
		log_discovery_header_encode(&header, to);
		return NVME_SC_SUCCESS;
	}
	for (unsigned i = 0; i < entry_count; i++)
		log_discovery_entry_encode(&entries[i], to + i * LOG_DISCOVERY_ENTRY_BYTES);
	return NVME_SC_SUCCESS;
}

/* ---- helpers --------------------------------------------------------------------------------- */

static void on_log(void *arg, int level, const char *line)
{
	size_t used = strlen(logged);

	EXPECT_EQ(1, level); /* a warning */
	snprintf(logged + used, sizeof(logged) - used, "%s\n", line);
	logged_lines++;
}

static void offer(unsigned transport, const char *address, const char *nqn)
{
	struct discovery_entry *entry = &entries[entry_count++];

	*entry = (struct discovery_entry){.transport = (enum discovery_transport)transport,
					  .family = DISCOVERY_IPV4,
					  .subtype = DISCOVERY_NVM,
					  .cntlid = NVME_CNTLID_ANY,
					  .service = "4420"};
	snprintf(entry->address, sizeof(entry->address), "%s", address);
	snprintf(entry->subsystem_nqn, sizeof(entry->subsystem_nqn), "%s", nqn);
}

static void begin(void)
{
	memset(entries, 0, sizeof(entries));
	memset(&error, 0, sizeof(error));
	entry_count = logged_lines = 0;
	logged[0] = '\0';
}

/* Returns the subsystem with the addresses taken; the caller frees it. */
static struct weft_subsystem *take(const char *nqn, int wanted)
{
	struct weft_subsystem *subsystem =
		calloc(1, sizeof(*subsystem) + sizeof(*subsystem->parts));
	struct weft_path discovery = {.address = "10.0.0.9"};
	struct weft_open_options options = {.subsystem_nqn = nqn, .discovery = &discovery};

	weft.log = on_log;
	subsystem->weft = &weft;
	subsystem->part_count = 1;
	EXPECT_EQ(wanted, open_args_take(subsystem, &options, &error));
	return subsystem;
}

static void drop(struct weft_subsystem *subsystem)
{
	free(subsystem->addrs);
	free(subsystem);
}

/* ---- cases ----------------------------------------------------------------------------------- */

static void path_of_another_transport_is_named_and_left_out(void)
{
	struct weft_subsystem *subsystem;
	char text[HOST_ADDR_TEXT_BYTES];

	begin();
	offer(DISCOVERY_TCP, "10.0.0.1", NQN);
	offer(DISCOVERY_RDMA, "10.0.0.1", NQN);
	offer(DISCOVERY_TCP, "10.0.0.2", NQN);
	offer(2, "10.0.0.3", OTHER_NQN);
	subsystem = take(NQN, 0);
	EXPECT_EQ(2, subsystem->addr_count);
	EXPECT_STR("10.0.0.1:4420", host_addr_format(&subsystem->addrs[0], text));
	EXPECT_STR("10.0.0.2:4420", host_addr_format(&subsystem->addrs[1], text));
	EXPECT_EQ(1, logged_lines);
	EXPECT_STR("the path to 10.0.0.1 port 4420 is not used: its transport is rdma, and this "
		   "build has only tcp\n",
		   logged);
	drop(subsystem);
}

/* The only subsystem is found among the paths that can be used. */
static void subsystem_is_chosen_among_usable_paths(void)
{
	struct weft_subsystem *subsystem;

	begin();
	offer(DISCOVERY_RDMA, "10.0.0.1", OTHER_NQN);
	offer(DISCOVERY_TCP, "10.0.0.1", NQN);
	subsystem = take(NULL, 0);
	EXPECT_STR(NQN, subsystem->config.subsystem_nqn);
	EXPECT_EQ(1, subsystem->addr_count);
	EXPECT_EQ(0, logged_lines);
	drop(subsystem);
}

static void error_names_the_transport_that_is_missing(void)
{
	static const char *const nqns[] = {NQN, NULL};

	for (unsigned i = 0; i < 2; i++) {
		begin();
		offer(DISCOVERY_RDMA, "10.0.0.1", NQN);
		offer(7, "10.0.0.2\033", NQN);
		drop(take(nqns[i], -EPROTONOSUPPORT));
		EXPECT_STR("the path to 10.0.0.1 port 4420 is not used: its transport is rdma, "
			   "and this build has only tcp",
			   error.text);
		EXPECT_EQ(2, logged_lines);
		EXPECT(strstr(logged, "10.0.0.2\\u001b port 4420 is not used: its transport is "
				      "type 7, ") != NULL);
	}
}

static void empty_log_is_as_before(void)
{
	begin();
	drop(take(NULL, -ENOENT));
	EXPECT_STR("the discovery service offers this host no subsystem over TCP", error.text);
	begin();
	drop(take(NQN, -ENOENT));
	EXPECT(strstr(error.text, "has no path to " NQN) != NULL);
	EXPECT_EQ(0, logged_lines);
}

int main(void)
{
	TAP_RUN(path_of_another_transport_is_named_and_left_out);
	TAP_RUN(subsystem_is_chosen_among_usable_paths);
	TAP_RUN(error_names_the_transport_that_is_missing);
	TAP_RUN(empty_log_is_as_before);
	return tap_end();
}
