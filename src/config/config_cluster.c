/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cluster in the configuration: this member, the other members, and the range of controller
 * identifiers of each. A member's lock number on shared files is a hash of its name
 * (media/member_lock.h). All members must list the same names; a link between two members whose
 * lists differ is refused (cluster/peer_link.c).
 *
 * Control thread only. Only config_cluster_read_secret opens a file.
 */
#include "base/check.h"
#include "base/text.h"
#include "base/unix_addr.h"
#include "config/config_parse.h"
#include "config/fields.h"
#include "media/member_lock.h"
#include "media/spec.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define ANSWER_MS_MIN  20
#define ANSWER_MS_MAX  60000
#define UNIX_PREFIX    "unix:"
#define PEER_ADDR_TEXT (sizeof(((struct peer_addr *)0)->path) + NET_ADDR_TEXT_BYTES)

/* ---- reading ----------------------------------------------------------------------------------
 */

/* A member of the struct, at the offset in its row. */
static void *member(void *of, size_t offset)
{
	return (uint8_t *)of + offset;
}

static const void *const_member(const void *of, size_t offset)
{
	return (const uint8_t *)of + offset;
}

static bool name_is_good(const char *name)
{
	size_t len = strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
				  "._-");

	return len > 0 && len < PEER_NAME_BYTES && name[len] == 0;
}

static void name_parse(struct config_cursor *at, const json_t *object,
		       const struct config_field *field, void *to)
{
	char *name = member(to, field->offset);
	const char *text = NULL;

	if (!config_get_text(at, object, field->key, &text))
		return;
	if (name_is_good(text))
		text_copy(name, PEER_NAME_BYTES, text);
	else
		config_complain(at, field->key,
				"must be 1 to %d letters, digits, dots, dashes or underscores",
				PEER_NAME_BYTES - 1);
}

static void addr_parse(struct config_cursor *at, const json_t *object,
		       const struct config_field *field, void *to)
{
	struct peer_addr *addr = member(to, field->offset);
	const char *key = field->key, *text = NULL;

	if (!config_get_text(at, object, key, &text))
		return;
	if (strncmp(text, UNIX_PREFIX, strlen(UNIX_PREFIX)) == 0) {
		const char *path = text + strlen(UNIX_PREFIX);

		if (path[0] != '/')
			config_complain(at, key, "the path of a socket must begin with /");
		else if (text_copy(addr->path, sizeof(addr->path), path) >= sizeof(addr->path))
			config_complain(at, key, "the path has more than %zu bytes",
					sizeof(addr->path) - 1);
		else if (!unix_addr_fits(path))
			config_complain(
				at, key,
				"the socket's file name has more than %d bytes; with a path "
				"this long the maximum is %d",
				UNIX_ADDR_NAME_MAX, UNIX_ADDR_NAME_MAX);
	} else if (net_addr_parse(text, 0, &addr->addr) || net_addr_port(&addr->addr) == 0) {
		config_complain(at, key, "\"%s\" must be \"unix:/PATH\", or a numeric ADDRESS:PORT",
				text);
	}
}

static json_t *addr_write(const struct config_writing *writing, const struct config_field *field,
			  const void *from)
{
	const struct peer_addr *addr = const_member(from, field->offset);
	char text[PEER_ADDR_TEXT], numbers[NET_ADDR_TEXT_BYTES];

	if (addr->path[0] != 0)
		snprintf(text, sizeof(text), UNIX_PREFIX "%s", addr->path);
	else
		snprintf(text, sizeof(text), "%s", net_addr_format(&addr->addr, numbers));
	return json_string(text);
}

/* field->offset is that of the first identifier, count_offset that of the last. */
static void cntlids_parse(struct config_cursor *at, const json_t *object,
			  const struct config_field *field, void *to)
{
	uint16_t *first = member(to, field->offset), *last = member(to, field->count_offset);
	const json_t *pair = NULL;
	json_int_t from, upto;

	if (!config_get_array(at, object, field->key, 2, &pair))
		return;
	from = json_integer_value(json_array_get(pair, 0));
	upto = json_integer_value(json_array_get(pair, 1));
	if (json_array_size(pair) != 2 || !json_is_integer(json_array_get(pair, 0)) ||
	    !json_is_integer(json_array_get(pair, 1)) || from < 1 || upto > TARGET_CNTLID_MAX ||
	    from > upto) {
		config_complain(at, field->key,
				"must be [FIRST, LAST], within 1 to %d and in this order",
				TARGET_CNTLID_MAX);
		return;
	}
	*first = (uint16_t)from;
	*last = (uint16_t)upto;
}

static json_t *cntlids_write(const struct config_writing *writing, const struct config_field *field,
			     const void *from)
{
	const uint16_t *first = const_member(from, field->offset);
	const uint16_t *last = const_member(from, field->count_offset);

	return json_pack("[i, i]", (int)*first, (int)*last);
}

/* Parses "kill" or "none" into a bool, which is left unchanged when the key is absent. */
static void fence_parse(struct config_cursor *at, const json_t *object,
			const struct config_field *field, void *to)
{
	bool *may_kill = member(to, field->offset);
	const char *text = NULL;

	if (!config_get_text(at, object, field->key, &text))
		return;
	if (strcmp(text, "kill") != 0 && strcmp(text, "none") != 0)
		config_complain(at, field->key, "\"%s\" must be \"kill\" or \"none\"", text);
	else
		*may_kill = strcmp(text, "kill") == 0;
}

/* ---- a peer ------------------------------------------------------------------------------------
 */

#define NAME_MISSING    "every member has a name"
#define ADDR_MISSING    "give \"unix:/PATH\" or \"ADDRESS:PORT\""
#define CNTLIDS_MISSING "give the first and the last controller identifier, such as [1, 1000]"

/* Only a peer behind a Unix socket can be killed: it runs on this machine, and the kernel knows its
 * process. */
static void peer_fence_parse(struct config_cursor *at, const json_t *object,
			     const struct config_field *field, void *to)
{
	struct peer_config *peer = to;

	peer->may_kill = peer->may_kill && peer->addr.path[0] != 0;
	fence_parse(at, object, field, peer);
	if (peer->may_kill && peer->addr.path[0] == 0)
		config_complain(at, field->key,
				"\"kill\" needs a \"unix:\" address: only such a peer is known to "
				"be a process of this machine");
}

static json_t *peer_fence_write(const struct config_writing *writing,
				const struct config_field *field, const void *from)
{
	const struct peer_config *peer = from;

	return json_string(peer->may_kill ? "kill" : "none");
}

static const char *const fence_words[] = {"kill", "none"};

#define PEER struct peer_config
static const struct config_field peer_fields[] = {
	{"name", "name of the peer", .change = FIELD_NAMES, FIELD_IS_CHARS(PEER, name),
	 .parse = name_parse, .missing = NAME_MISSING},
	{"address", "the peer's \"listen\" address", .type = "string",
	 FIELD_AT(PEER, addr, struct peer_addr), .parse = addr_parse, .write = addr_write,
	 .missing = ADDR_MISSING},
	{"cntlids", "first and last identifier of the peer's controllers", .type = "array",
	 FIELD_AT(PEER, cntlid_first, uint16_t), .count_offset = offsetof(PEER, cntlid_last),
	 .parse = cntlids_parse, .write = cntlids_write, .missing = CNTLIDS_MISSING},
	{"fence", "whether the peer may be killed", .words = fence_words,
	 .word_count = ARRAY_LEN(fence_words), FIELD_AT(PEER, may_kill, bool),
	 .absent = "the cluster's \"fence\"", .parse = peer_fence_parse, .write = peer_fence_write},
};

const struct config_object config_peer_object = {"peer", sizeof(PEER), NULL, peer_fields,
						 ARRAY_LEN(peer_fields)};

static void peers_parse(struct config_cursor *at, const json_t *object,
			const struct config_field *field, void *to)
{
	struct config_cluster *cluster = to;
	struct peers_config *peers = &cluster->peers;
	const json_t *array = NULL;

	if (!config_get_array(at, object, field->key, field->max, &array))
		return;
	if (json_array_size(array) == 0)
		config_complain(at, field->key,
				"is empty; list the other members, or leave out "
				"\"cluster\"");
	peers->peer_count = (unsigned)json_array_size(array);
	for (unsigned i = 0; i < peers->peer_count; i++) {
		size_t mark = config_cursor_enter(at, field->key, i);

		peers->peers[i].may_kill = cluster->may_kill;
		config_object_parse(at, &config_peer_object, json_array_get(array, i),
				    &peers->peers[i]);
		config_cursor_leave(at, mark);
	}
}

static json_t *peers_write(const struct config_writing *writing, const struct config_field *field,
			   const void *from)
{
	const struct peers_config *peers = &((const struct config_cluster *)from)->peers;
	json_t *list = json_array();

	for (unsigned i = 0; list && i < peers->peer_count; i++) {
		if (json_array_append_new(list, config_object_write(writing, &config_peer_object,
								    &peers->peers[i])) < 0) {
			json_decref(list);
			return NULL;
		}
	}
	return list;
}

/* ---- checks between members --------------------------------------------------------------------
 */

static bool ranges_meet(uint16_t a_first, uint16_t a_last, uint16_t b_first, uint16_t b_last)
{
	return a_first != 0 && b_first != 0 && a_first <= b_last && b_first <= a_last;
}

/* Can happen by chance, because lock numbers are hashes. */
static bool locks_meet(const char *a, const char *b)
{
	return a[0] != 0 && b[0] != 0 && member_lock_number(a) == member_lock_number(b);
}

static void peer_check(struct config_cursor *at, const struct peers_config *all, unsigned index)
{
	const struct peer_config *peer = &all->peers[index];

	if (peer->name[0] != 0 && strcmp(peer->name, all->name) == 0)
		config_complain(at, "name", "\"%s\" is the name of this member itself", peer->name);
	else if (locks_meet(peer->name, all->name))
		config_complain(at, "name",
				"\"%s\" and \"%s\" have the same lock number; rename one",
				peer->name, all->name);
	if (ranges_meet(peer->cntlid_first, peer->cntlid_last, all->cntlid_first, all->cntlid_last))
		config_complain(
			at, "cntlids", "%u to %u overlaps this member's own range, %u to %u",
			peer->cntlid_first, peer->cntlid_last, all->cntlid_first, all->cntlid_last);
	for (unsigned i = 0; i < index; i++) {
		const struct peer_config *other = &all->peers[i];

		if (peer->name[0] != 0 && strcmp(peer->name, other->name) == 0)
			config_complain(at, "name", "\"%s\" is the name of peers[%u] too",
					peer->name, i);
		else if (locks_meet(peer->name, other->name))
			config_complain(at, "name",
					"\"%s\" and \"%s\" have the same lock number; rename one",
					peer->name, other->name);
		if (ranges_meet(peer->cntlid_first, peer->cntlid_last, other->cntlid_first,
				other->cntlid_last))
			config_complain(at, "cntlids",
					"%u to %u overlaps the range of peers[%u], %u to %u",
					peer->cntlid_first, peer->cntlid_last, i,
					other->cntlid_first, other->cntlid_last);
	}
}

static void index_derive(struct peers_config *all)
{
	all->lock = member_lock_number(all->name);
	for (unsigned i = 0; i < all->peer_count; i++)
		all->index += strcmp(all->peers[i].name, all->name) < 0;
	for (unsigned i = 0; i < all->peer_count; i++) {
		all->peers[i].lock = member_lock_number(all->peers[i].name);
		all->peers[i].index = strcmp(all->name, all->peers[i].name) < 0;
		for (unsigned k = 0; k < all->peer_count; k++)
			all->peers[i].index += strcmp(all->peers[k].name, all->peers[i].name) < 0;
	}
}

/* ---- the table ---------------------------------------------------------------------------------
 */

static void secret_file_parse(struct config_cursor *at, const json_t *object,
			      const struct config_field *field, void *to)
{
	struct config_cluster *cluster = to;
	const char *path = NULL;

	if (!config_get_text(at, object, field->key, &path))
		return;
	cluster->secret_file = strdup(path);
	if (!cluster->secret_file)
		config_complain_memory(at, field->key);
}

_Static_assert(PEER_SECRET_BYTES == 32, "cluster_fields names 32 characters");

#define CLUSTER struct config_cluster
static const struct config_field cluster_fields[] = {
	{"name", "name of this member", .change = FIELD_FIXED, FIELD_IS_CHARS(CLUSTER, peers.name),
	 .parse = name_parse, .missing = NAME_MISSING},
	{"listen", "address that other members connect to", .change = FIELD_FIXED, .type = "string",
	 FIELD_AT(CLUSTER, peers.listen, struct peer_addr), .parse = addr_parse,
	 .write = addr_write, .missing = ADDR_MISSING},
	{"secret_file", "a file of mode 0600 with the secret that all members share",
	 .change = FIELD_FIXED, FIELD_IS_TEXT(CLUSTER, secret_file, UINT32_MAX),
	 .parse = secret_file_parse,
	 .missing = "name a file with a secret that all members share, of at least 32 characters "
		    "and mode 0600"},
	{"cntlids", "first and last identifier of this member's controllers", .change = FIELD_FIXED,
	 .type = "array", FIELD_AT(CLUSTER, peers.cntlid_first, uint16_t),
	 .count_offset = offsetof(CLUSTER, peers.cntlid_last), .parse = cntlids_parse,
	 .write = cntlids_write, .missing = CNTLIDS_MISSING},
	{"answer_ms", "time without progress of a peer's data path after which the peer is fenced",
	 .change = FIELD_FIXED,
	 FIELD_IS_U32(CLUSTER, peers.answer_ms, ANSWER_MS_MIN, ANSWER_MS_MAX),
	 .number = PEER_ANSWER_MS},
	/* Not written here: each peer is written with its own. */
	{"fence", "whether peers with a \"unix:\" address may be killed", .change = FIELD_FIXED,
	 .words = fence_words, .word_count = ARRAY_LEN(fence_words),
	 FIELD_AT(CLUSTER, may_kill, bool), .text = "kill", .parse = fence_parse},
	{"peers", "the other members", .change = FIELD_FIXED, .type = "array", .max = PEERS_MAX,
	 .parse = peers_parse, .write = peers_write, .missing = "list the other members",
	 .object = &config_peer_object},
};

const struct config_object config_cluster_object = {"cluster", sizeof(CLUSTER), NULL,
						    cluster_fields, ARRAY_LEN(cluster_fields)};

void config_cluster_parse(struct config_cursor *at, const json_t *object, struct config *config)
{
	struct config_cluster *cluster = calloc(1, sizeof(*cluster));

	if (!cluster) {
		config_complain_memory(at, NULL);
		return;
	}
	config_object_init(&config_cluster_object, cluster);
	cluster->may_kill = true;
	if (!config_object_parse(at, &config_cluster_object, object, cluster)) {
		free(cluster);
		return;
	}
	config->cluster = cluster;
	for (unsigned i = 0; i < cluster->peers.peer_count; i++) {
		size_t mark = config_cursor_enter(at, "peers", i);

		peer_check(at, &cluster->peers, i);
		config_cursor_leave(at, mark);
	}
	index_derive(&cluster->peers);
}

static void ns_check(struct config_cursor *at, const struct config *config,
		     const struct config_ns *ns)
{
	char text[UUID_TEXT_BYTES];
	struct uuid uuid;
	char *path;

	if (!ns->is_clustered)
		return;
	path = config_media_path(ns->media);
	if (!config->cluster)
		config_complain(at, "clustered",
				"needs \"cluster\", which names the other members");
	if (ns->media && !path)
		config_complain(at, "clustered",
				"needs a \"file:\" medium: other members cannot reach memory");
	if (uuid_is_nil(&ns->uuid)) {
		uuid_random(&uuid);
		config_complain(at, "clustered",
				"needs \"uuid\": hosts must find the same one whichever member "
				"they reach; put this line into the documents of all members: "
				"\"uuid\": \"%s\"",
				uuid_format(&uuid, text));
	}
	free(path);
}

/* Members that generate their own serial numbers would look like different subsystems. */
static void serial_check(struct config_cursor *at, const struct config_subsystem *subsystem)
{
	char serial[NVME_SERIAL_BYTES + 1];

	if (subsystem->serial[0] != 0)
		return;
	for (unsigned n = 0; n < subsystem->ns_count; n++) {
		if (!subsystem->namespaces[n].is_clustered)
			continue;
		config_serial_make(serial);
		config_complain(at, "serial",
				"is missing, and namespace %u is clustered: hosts must find the "
				"same serial number whichever member they reach; put this line "
				"into the documents of all members: \"serial\": \"%s\"",
				subsystem->namespaces[n].nsid, serial);
		return;
	}
}

void config_cluster_check(struct config_cursor *at, const struct config *config)
{
	for (unsigned s = 0; s < config->subsystem_count; s++) {
		size_t outer = config_cursor_enter(at, "subsystems", s);

		serial_check(at, &config->subsystems[s]);
		config_cursor_leave(at, outer);
		for (unsigned n = 0; n < config->subsystems[s].ns_count; n++) {
			size_t mark = config_cursor_enter(at, "subsystems", s);

			config_cursor_enter(at, "namespaces", n);
			ns_check(at, config, &config->subsystems[s].namespaces[n]);
			config_cursor_leave(at, mark);
		}
	}
}

/* ---- comparing and freeing ---------------------------------------------------------------------
 */

void config_cluster_free(struct config_cluster *cluster)
{
	if (!cluster)
		return;
	explicit_bzero(cluster->peers.secret, sizeof(cluster->peers.secret));
	config_object_release(&config_cluster_object, cluster);
	free(cluster);
}

bool config_cluster_same(const struct config_cluster *a, const struct config_cluster *b)
{
	return a && b ? config_object_same(&config_cluster_object, a, b) : a == b;
}

/* ---- the secret --------------------------------------------------------------------------------
 */

static int secret_fail(const struct config_cluster *cluster, struct config_errors *errors,
		       const char *text)
{
	config_errors_add(errors, "cluster.secret_file: %s %s", cluster->secret_file, text);
	return -EINVAL;
}

int config_cluster_read_secret(struct config_cluster *cluster, struct config_errors *errors)
{
	struct peers_config *peers = &cluster->peers;
	/* O_NONBLOCK: opening a pipe must not delay the start. */
	int fd = open(cluster->secret_file, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	char text[PEER_SECRET_MAX + 2];
	struct stat st;
	ssize_t got = -1;
	int error = errno;

	if (fd >= 0) {
		got = fstat(fd, &st) == 0 ? read(fd, text, sizeof(text)) : -1;
		error = errno;
		close(fd);
	}
	if (got < 0) {
		config_errors_add(errors, "cluster.secret_file: cannot read %s: %s",
				  cluster->secret_file, strerror(error));
		return -error;
	}
	while (got > 0 && (text[got - 1] == '\n' || text[got - 1] == '\r'))
		got--;
	if (!S_ISREG(st.st_mode))
		return secret_fail(cluster, errors, "is no regular file");
	if ((st.st_mode & 077) != 0)
		return secret_fail(cluster, errors,
				   "can be read by other users; run chmod 600 on it");
	if (st.st_uid != geteuid() && st.st_uid != 0)
		return secret_fail(cluster, errors, "belongs to another user");
	if (got < PEER_SECRET_BYTES)
		return secret_fail(cluster, errors,
				   "is too short: a secret has at least 32 characters");
	if (got > PEER_SECRET_MAX)
		return secret_fail(cluster, errors,
				   "is too long: a secret has at most 256 characters");
	memcpy(peers->secret, text, (size_t)got);
	peers->secret_bytes = (size_t)got;
	explicit_bzero(text, sizeof(text));
	return 0;
}
