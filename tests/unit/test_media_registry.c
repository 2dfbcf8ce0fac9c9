/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a configuration becomes, and what stays when another one follows: media that grow in place,
 * live state that follows the namespace, transactions that leave no trace when undone, masks,
 * labels, write protection, the accounting of a pool and its files. At the end the time for a large
 * configuration.
 */
#include "base/clock.h"
#include "base/text.h"
#include "config/config_mask.h"
#include "config/config_parse.h"
#include "daemon/media_registry.h"
#include "daemon/pool.h"
#include "daemon/snapshot_build.h"
#include "ns/ns_live.h"

#include "media_harness.h"
#include "tap.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define NQN "nqn.2026-11.io.weft:r"
#define H1  "nqn.2014-08.org.example:h1"
#define H2  "nqn.2014-08.org.example:h2"
#define H3  "nqn.2014-08.org.example:h3"

static struct config_errors errors;
static struct media_registry *registry;
static char folder[64];

/* Calls of the keeper. */
static unsigned forgotten;
static char protected_key[64]; /* namespace last kept as permanently protected */
static char *image_text;       /* record of the file last kept */
static bool has_full_disk;

static int keep(void *arg, const char *kind, const char *key, const void *value, size_t bytes)
{
	forgotten += value == NULL;
	if (strcmp(kind, NS_LIVE_KEPT_PROTECTION) == 0)
		snprintf(protected_key, sizeof(protected_key), "%s", value ? key : "");
	if (strcmp(kind, "image") == 0) {
		if (has_full_disk)
			return -ENOSPC;
		free(image_text);
		image_text = value ? strndup(value, bytes) : NULL;
	}
	return 0;
}

static int recall(void *arg, const char *kind, const char *key, void **ret_value, size_t *ret_bytes)
{
	const char *text = NULL;

	if (strcmp(kind, NS_LIVE_KEPT_PROTECTION) == 0 && strcmp(key, protected_key) == 0)
		text = "permanent";
	else if (strcmp(kind, "image") == 0)
		text = image_text;
	if (!text)
		return -ENOENT;
	*ret_value = strdup(text);
	*ret_bytes = strlen(*ret_value);
	return 0;
}

static void begin(void)
{
	struct keeper keeper = {.keep = keep, .recall = recall};

	EXPECT_EQ(0, media_registry_create(2, &registry));
	media_registry_set_keeper(registry, &keeper);
	snprintf(folder, sizeof(folder), "/tmp/weft-registry-XXXXXX");
	EXPECT(mkdtemp(folder) != NULL);
	forgotten = 0;
}

static int remove_one(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
	return remove(path);
}

static void end(void)
{
	media_registry_destroy(registry);
	nftw(folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
	free(image_text);
	image_text = NULL;
}

/* Gives a namespace of the same number and medium the same UUID in all documents of a test. */
static void identify(struct config *config)
{
	struct config_subsystem *subsystem = config->subsystems;

	for (unsigned i = 0; i < subsystem->ns_count; i++) {
		struct config_ns *ns = &subsystem->namespaces[i];
		char *media = config_media_identity(ns->media);
		char name[512];

		snprintf(name, sizeof(name), "%u/%s", ns->nsid, media);
		if (uuid_is_nil(&ns->uuid))
			uuid_from_name(name, &ns->uuid);
		free(media);
	}
	EXPECT_EQ(0, config_identify(config, NULL, &errors));
}

__attribute__((format(printf, 1, 0))) static struct config *parse(const char *format, va_list args)
{
	struct config *config = NULL;
	static char text[8192];

	vsnprintf(text, sizeof(text), format, args);
	for (char *c = text; *c != 0; c++)
		*c = *c == '\'' ? '"' : *c;
	memset(&errors, 0, sizeof(errors));
	if (config_load_text(text, strlen(text), &config, &errors) == 0)
		identify(config);
	for (unsigned i = 0; i < errors.count && i < CONFIG_ERRORS_MAX; i++)
		printf("# %s\n", errors.texts[i]);
	return config;
}

/* Builds one subsystem with these keys, written with apostrophes. */
__attribute__((format(printf, 1, 2))) static struct snapshot *build(const char *format, ...)
{
	struct snapshot *snapshot = NULL;
	struct config *config;
	char whole[4096];
	va_list args;

	snprintf(whole, sizeof(whole), "{'version':1,'subsystems':[{'nqn':'" NQN "',%s}]}", format);
	va_start(args, format);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
	config = parse(whole, args);
#pragma GCC diagnostic pop
	va_end(args);
	EXPECT(config != NULL);
	if (config)
		snapshot_from_config(config, registry, 1, &snapshot, &errors);
	config_free(config);
	return snapshot;
}

static const struct ns *ns_at(const struct snapshot *snapshot, unsigned index)
{
	return &snapshot->subsystems[0]->namespaces[index];
}

static uint64_t file_bytes(const char *name)
{
	char path[256];
	struct stat st;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	return stat(path, &st) == 0 ? (uint64_t)st.st_size : UINT64_MAX;
}

#define U1 "'uuid':'6f1c7b9a-52e0-4d0b-9a39-1f0f5c1d2e31'"
#define U2 "'uuid':'6f1c7b9a-52e0-4d0b-9a39-1f0f5c1d2e32'"

static void growing_keeps_the_live_state(void)
{
	struct snapshot *first, *second;

	begin();
	first = build("'namespaces':[{'media':'file:%s/a,size=1M'},{'media':'mem:1M'}]", folder);
	media_registry_commit(registry);
	ns_at(first, 1)->mapped[5] = 9;
	second = build("'namespaces':[{'media':'file:%s/a,size=2M'},{'media':'mem:2M'}]", folder);
	EXPECT(second != NULL);
	for (unsigned i = 0; second && i < 2; i++) {
		EXPECT_EQ(256, ns_at(first, i)->block_count);
		EXPECT_EQ(512, ns_at(second, i)->block_count);
		EXPECT(ns_at(first, i)->locals == ns_at(second, i)->locals);
		EXPECT(ns_at(first, i)->backing != ns_at(second, i)->backing);
		EXPECT(ns_backing_live(ns_at(first, i)->backing) ==
		       ns_backing_live(ns_at(second, i)->backing));
	}
	EXPECT_EQ(9, ns_at(second, 1)->mapped[5]);
	media_registry_commit(registry);
	snapshot_destroy(first);
	EXPECT_EQ(9, ns_at(second, 1)->mapped[5]);
	EXPECT_EQ(2 << 20, file_bytes("a"));
	EXPECT_EQ(0, forgotten);
	snapshot_destroy(second);
	end();
}

static void a_rollback_gives_everything_back(void)
{
	struct snapshot *first, *second, *third;

	begin();
	first = build("'namespaces':[{'media':'file:%s/a,size=1M'}]", folder);
	media_registry_commit(registry);
	second = build("'namespaces':[{'media':'file:%s/a,size=2M'},"
		       "{'media':'file:%s/b,size=1M'}]",
		       folder, folder);
	EXPECT_EQ(2 << 20, file_bytes("a"));
	EXPECT_EQ(1 << 20, file_bytes("b"));
	snapshot_destroy(second);
	media_registry_rollback(registry);
	EXPECT_EQ(1 << 20, file_bytes("a"));
	EXPECT_EQ(UINT64_MAX, file_bytes("b"));
	EXPECT_EQ(1, media_registry_count(registry));
	/* A failed build undoes its changes itself. */
	EXPECT(!build("'namespaces':[{'media':'file:%s/a,size=2M'},"
		      "{'media':'file:%s/c,size=1M'},{'media':'file:/nowhere/d'}]",
		      folder, folder));
	EXPECT_EQ(1 << 20, file_bytes("a"));
	EXPECT_EQ(UINT64_MAX, file_bytes("c"));
	third = build("'namespaces':[{'media':'file:%s/a,size=1M'}]", folder);
	EXPECT(ns_at(first, 0)->backing == ns_at(third, 0)->backing);
	media_registry_commit(registry);
	snapshot_destroy(first);
	snapshot_destroy(third);
	end();
}

/* In force, but not kept: the former configuration is built again before the rollback. */
static void a_change_in_force_can_be_taken_back(void)
{
	struct snapshot *first, *second, *back;

	begin();
	first = build("'namespaces':[{'media':'file:%s/a,size=1M'}]", folder);
	media_registry_commit(registry);
	second = build("'namespaces':[{'media':'file:%s/a,size=2M'},{'media':'mem:1M'}]", folder);
	back = build("'namespaces':[{'media':'file:%s/a,size=1M'}]", folder);
	EXPECT(ns_at(first, 0)->backing == ns_at(back, 0)->backing);
	snapshot_destroy(first);
	snapshot_destroy(second);
	media_registry_rollback(registry);
	EXPECT_EQ(1 << 20, file_bytes("a"));
	EXPECT_EQ(1, media_registry_count(registry));
	/* If building the former one fails too, the configuration in force is committed. */
	second = build("'namespaces':[{'media':'file:%s/a,size=2M'},{'media':'mem:1M'}]", folder);
	EXPECT(!build("'namespaces':[{'media':'file:/nowhere/d'}]"));
	media_registry_commit(registry);
	EXPECT_EQ(2, media_registry_count(registry));
	EXPECT_EQ(2 << 20, file_bytes("a"));
	snapshot_destroy(back);
	snapshot_destroy(second);
	end();
}

/* The stored document has namespace U1 with file "a". */
static void expect_former(void)
{
	json_t *document;
	char *text;

	EXPECT(asprintf(&text,
			"{'version':1,'subsystems':[{'nqn':'" NQN "','namespaces':["
			"{'nsid':1," U1 ",'media':'file:%s/a,size=1M'}]}]}",
			folder) > 0);
	for (char *c = text; *c != 0; c++)
		*c = *c == '\'' ? '"' : *c;
	document = json_loads(text, 0, NULL);
	EXPECT_EQ(0, media_registry_expect(registry, document));
	json_decref(document);
	free(text);
}

/* pair: U1 or U2. */
static void retry(const char *pair, bool is_recreated)
{
	char text[UUID_TEXT_BYTES];
	struct uuid uuid;

	text_copy(text, sizeof(text), pair + strlen("'uuid':'")); /* without the last quote */
	EXPECT_EQ(0, uuid_parse(text, &uuid));
	media_registry_retry(registry, &uuid, is_recreated);
}

/* The file of a lost namespace is recreated with another UUID, and the document is not kept. */
static void recreate_and_take_back(bool is_written)
{
	static uint8_t block[4096] __attribute__((aligned(4096))) = {7};
	struct snapshot *lost, *again, *back;
	struct media_record record;

	expect_former();
	image_text = strdup("size=1048576 block=4096 device=0 inode=1 born=1");
	lost = build("'namespaces':[{'media':'file:%s/a,size=1M'," U1 "}]", folder);
	media_registry_commit(registry);
	EXPECT(media_is_lost(ns_at(lost, 0)->media));

	retry(U2, true);
	again = build("'namespaces':[{'media':'file:%s/a,size=1M'," U2 "}]", folder);
	EXPECT(again && !media_is_lost(ns_at(again, 0)->media));
	EXPECT(strstr(image_text, "for=") != NULL);
	if (is_written)
		EXPECT_EQ(0, harness_write(ns_at(again, 0)->media, 0, block, sizeof(block)));
	back = build("'namespaces':[{'media':'file:%s/a,size=1M'," U1 "}]", folder);
	EXPECT(media_is_lost(ns_at(back, 0)->media));
	snapshot_destroy(lost);
	snapshot_destroy(again);
	has_full_disk = !is_written;
	media_registry_rollback(registry);
	/* The next change writes what could not be written. */
	EXPECT(strstr(image_text, "for=") != NULL);
	has_full_disk = false;
	snapshot_destroy(build("'namespaces':[{'media':'file:%s/a,size=1M'," U1 "}]", folder));
	media_registry_commit(registry);
	EXPECT_EQ(is_written ? 1 << 20 : UINT64_MAX, file_bytes("a"));
	EXPECT_EQ(is_written, strstr(image_text, "for=") != NULL);
	EXPECT(media_get_record(ns_at(back, 0)->media, &record));
	EXPECT_EQ(is_written, record.is_given_up);
	/* A recheck opens the file only where it is the former one. */
	retry(U1, false);
	lost = build("'namespaces':[{'media':'file:%s/a,size=1M'," U1 "}]", folder);
	EXPECT(!lost);
	EXPECT_EQ(is_written, errors.count > 0 && strstr(errors.texts[0], "recreate it again"));
	snapshot_destroy(back);
}

static void an_undone_recreate_is_not_the_former_namespace(void)
{
	harness_start();
	for (int is_written = 0; is_written < 2; is_written++) {
		begin();
		recreate_and_take_back(is_written);
		end();
	}
	harness_stop();
}

static bool is_withheld(struct snapshot *taken_snapshot)
{
	bool is_withheld = false;

	EXPECT(taken_snapshot != NULL);
	if (taken_snapshot) {
		is_withheld = ns_at(taken_snapshot, 0)->is_withheld;
		EXPECT_EQ(is_withheld,
			  ns_at(taken_snapshot, 0)->ana_group == TARGET_ANA_GROUP_LOST);
		snapshot_destroy(taken_snapshot);
	}
	return is_withheld;
}

/* No host may write to the data of the former namespace while the change can be undone. */
static void a_store_that_passes_is_withheld_until_the_change_is_kept(void)
{
	static const char former[] = "'namespaces':[{'media':'file:%s/a,size=1M'," U1 "}]";
	static const char next[] = "'namespaces':[{'media':'file:%s/a,size=1M'," U2 "}]";
	static const char grown[] = "'namespaces':[{'media':'file:%s/a,size=2M'," U1 "}]";

	begin();
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
	EXPECT(!is_withheld(build(former, folder)));
	media_registry_commit(registry);
	EXPECT(is_withheld(build(next, folder)));
	EXPECT(media_registry_has_passed_any(registry));
	EXPECT(!is_withheld(build(former, folder))); /* undone */
	media_registry_rollback(registry);
	EXPECT(!is_withheld(build(former, folder)));
	EXPECT(!media_registry_has_passed_any(registry));
	media_registry_commit(registry);

	EXPECT(is_withheld(build(next, folder)));
	media_registry_note_kept(registry);
	EXPECT(!is_withheld(build(next, folder)));
	media_registry_commit(registry);
	EXPECT(!is_withheld(build(next, folder)));
	EXPECT(!media_registry_has_passed_any(registry));
	media_registry_commit(registry);
	/* Neither kept nor undone: the next change that is kept releases the store. */
	EXPECT(is_withheld(build(former, folder)));
	media_registry_commit_unkept(registry);
	EXPECT(is_withheld(build(former, folder)));
	media_registry_rollback(registry);
	/* A growth that is taken back. */
	EXPECT(is_withheld(build(grown, folder)));
	EXPECT(is_withheld(build(former, folder)));
	media_registry_rollback(registry);
	EXPECT(is_withheld(build(former, folder)));
	media_registry_note_kept(registry);
	EXPECT(!is_withheld(build(former, folder)));
	media_registry_commit(registry);
	/* The file of a removed namespace. */
	snapshot_destroy(build("'namespaces':[]"));
	media_registry_note_leaving(registry);
	media_registry_commit(registry);
	EXPECT(is_withheld(build(next, folder)));
	media_registry_rollback(registry);
	EXPECT(!is_withheld(build(former, folder)));
	media_registry_commit(registry);
#pragma GCC diagnostic pop
	end();
}

static void a_start_withholds_the_file_of_another_namespace(void)
{
	begin();
	snapshot_destroy(build("'namespaces':[{'media':'file:%s/a,size=1M'," U1 "}]", folder));
	media_registry_commit(registry);
	media_registry_destroy(registry);
	EXPECT_EQ(0, media_registry_create(2, &registry));
	expect_former();
	EXPECT(is_withheld(build("'namespaces':[{'media':'file:%s/a,size=1M'," U2 "}]", folder)));
	media_registry_destroy(registry);
	EXPECT_EQ(0, media_registry_create(2, &registry));
	expect_former();
	EXPECT(!is_withheld(build("'namespaces':[{'media':'file:%s/a,size=1M'," U1 "}]", folder)));
	media_registry_commit(registry);
	end();
}

static void what_leaves_for_good_is_forgotten(void)
{
	struct snapshot *first, *second;

	begin();
	first = build("'namespaces':[{'media':'mem:1M'},{'media':'mem:1M'}]");
	media_registry_commit(registry);
	second = build("'namespaces':[{'media':'mem:1M'}]");
	EXPECT_EQ(0, forgotten);
	media_registry_commit(registry);
	EXPECT(forgotten > 0);
	EXPECT_EQ(1, media_registry_count(registry));
	snapshot_destroy(first);
	snapshot_destroy(second);
	end();
}

static void another_uuid_is_another_live_state_over_the_same_medium(void)
{
	struct snapshot *first, *second;

	begin();
	first = build("'namespaces':[{'media':'mem:1M'," U1 "}]");
	media_registry_commit(registry);
	second = build("'namespaces':[{'media':'mem:1M'," U2 "}]");
	EXPECT(ns_at(first, 0)->mapped == ns_at(second, 0)->mapped);
	EXPECT(ns_at(first, 0)->locals != ns_at(second, 0)->locals);
	media_registry_commit(registry);
	snapshot_destroy(first);
	EXPECT_EQ(0, ns_at(second, 0)->mapped[0]);
	snapshot_destroy(second);
	end();
}

static void what_cannot_change_is_told(void)
{
	struct snapshot *first;

	begin();
	first = build("'namespaces':[{'media':'mem:2M'},{'media':'file:%s/a,size=2M'}]", folder);
	media_registry_commit(registry);
	EXPECT(!build("'namespaces':[{'media':'mem:1M'},{'media':'file:%s/a,size=1M'}]", folder));
	EXPECT_EQ(2, errors.count);
	EXPECT(strstr(errors.texts[0], "namespace 1 (mem:1M): mem: has 2097152 bytes and cannot"));
	EXPECT(strstr(errors.texts[1], "would cut it"));
	snapshot_destroy(first);
	end();
}

static bool sees(const struct snapshot *snapshot, unsigned ns, const char *host)
{
	return ns_mask_has(ns_at(snapshot, ns)->mask, snapshot_host_index(snapshot, host));
}

static void masks_say_who_sees_what(void)
{
	struct snapshot *s;

	begin();
	s = build("'namespaces':[{'media':'null:1M'},{'media':'null:1M','hosts':[]},"
		  "{'media':'null:1M','hosts':['" H2 "','" H1 "']},"
		  "{'media':'null:1M','hidden_from':['" H1 "']},"
		  "{'media':'null:1M','hosts':['" H1 "','" H2 "'],'hidden_from':['" H2 "']},"
		  "{'media':'null:1M','hosts':['" H1 "'],'private':true},"
		  "{'media':'null:1M','hosts':['" H1 "','" H2 "']}]");
	EXPECT(s != NULL);
	media_registry_commit(registry);
	EXPECT_EQ(2, s->mask_host_count);
	EXPECT_STR(H1, s->mask_hosts[0]);
	EXPECT(!ns_at(s, 0)->mask);
	EXPECT(sees(s, 0, H1) && sees(s, 0, H3));
	EXPECT(!sees(s, 1, H1) && !sees(s, 1, H2) && !sees(s, 1, H3));
	EXPECT(sees(s, 2, H1) && sees(s, 2, H2) && !sees(s, 2, H3));
	EXPECT(!sees(s, 3, H1) && sees(s, 3, H2) && sees(s, 3, H3));
	EXPECT(sees(s, 4, H1) && !sees(s, 4, H2) && !sees(s, 4, H3));
	EXPECT(ns_at(s, 5)->is_private && !ns_at(s, 4)->is_private);
	/* One mask for each distinct set of hosts. */
	EXPECT(ns_at(s, 2)->mask == ns_at(s, 6)->mask);
	EXPECT(ns_at(s, 4)->mask == ns_at(s, 5)->mask);
	EXPECT_EQ(4, s->mask_count);
	snapshot_destroy(s);
	end();
}

/* More hosts than a word has bits. */
static void masks_have_room_for_many_hosts(void)
{
	char list[16384] = "", host[96];
	struct config *config = NULL;
	struct snapshot *s = NULL;
	json_t *document, *hosts = json_array();

	begin();
	for (unsigned i = 0; i < 130; i++) {
		snprintf(host, sizeof(host), "nqn.2014-08.org.example:m%03u", i);
		json_array_append_new(hosts, json_string(host));
	}
	snprintf(list, sizeof(list), "nqn.2014-08.org.example:m%03u", 129);
	document = json_pack("{s:i,s:[{s:s,s:[{s:s,s:o},{s:s,s:[s]}]}]}", "version", 1,
			     "subsystems", "nqn", NQN, "namespaces", "media", "null:1M", "hosts",
			     hosts, "media", "null:1M", "hidden_from", list);
	EXPECT_EQ(0, config_load_json(document, &config, &errors));
	EXPECT_EQ(0, config_identify(config, NULL, &errors));
	EXPECT_EQ(0, snapshot_from_config(config, registry, 1, &s, &errors));
	media_registry_commit(registry);
	EXPECT_EQ(130, s->mask_host_count);
	for (unsigned i = 0; i < 130; i++) {
		snprintf(host, sizeof(host), "nqn.2014-08.org.example:m%03u", i);
		EXPECT(sees(s, 0, host));
		EXPECT_EQ(i != 129, sees(s, 1, host));
	}
	EXPECT(!sees(s, 0, H1) && sees(s, 1, H1));
	snapshot_destroy(s);
	config_free(config);
	json_decref(document);
	end();
}

static void protection_labels_and_marks_are_told(void)
{
	struct snapshot *s, *t;
	struct uuid uuid;

	begin();
	s = build("'namespaces':[{'media':'null:1M','label':'red'},"
		  "{'media':'null:1M','write_protect':'permanent'," U1 "},"
		  "{'media':'null:1M','write_protect':'protected'},"
		  "{'media':'null:1M','read_only':true}]");
	media_registry_commit(registry);
	EXPECT_STR("red", ns_at(s, 0)->label);
	EXPECT(!ns_at(s, 1)->label);
	EXPECT(!ns_at(s, 0)->is_read_only && ns_at(s, 1)->is_read_only &&
	       ns_at(s, 2)->is_read_only);
	EXPECT_EQ(NS_WRITE_PROTECT_PERMANENT, ns_at(s, 1)->write_protect);
	EXPECT_EQ(NS_WRITE_PROTECT_NONE, ns_at(s, 3)->write_protect);
	EXPECT(!ns_at(s, 1)->is_formatting);
	uuid = ns_at(s, 1)->uuid;
	EXPECT_EQ(0, media_registry_set_formatting(registry, &uuid, true));
	EXPECT(media_registry_is_formatting(registry, &uuid));
	t = build("'namespaces':[{'media':'null:1M'},"
		  "{'media':'null:1M','write_protect':'permanent'," U1 "}]");
	media_registry_commit(registry);
	EXPECT(!ns_at(t, 0)->is_formatting && ns_at(t, 1)->is_formatting);
	EXPECT_EQ(0, media_registry_set_formatting(registry, &uuid, false));
	EXPECT(!media_registry_is_formatting(registry, &uuid));
	snapshot_destroy(s);
	snapshot_destroy(t);
	end();
}

static void protection_for_good_outlives_the_document(void)
{
	struct snapshot *s;

	protected_key[0] = 0;
	begin();
	s = build("'namespaces':[{'media':'null:1M','write_protect':'permanent'," U1 "}]");
	EXPECT_STR("", protected_key);
	media_registry_commit(registry);
	EXPECT_STR("6f1c7b9a-52e0-4d0b-9a39-1f0f5c1d2e31", protected_key);
	snapshot_destroy(s);
	EXPECT(!build("'namespaces':[{'media':'null:1M'," U1 "}]"));
	EXPECT(strstr(errors.texts[0], "write protected permanently") != NULL);
	/* The namespace is left out; the next process still knows its protection. */
	s = build("'namespaces':[{'media':'null:1M'," U2 "}]");
	media_registry_commit(registry);
	snapshot_destroy(s);
	end();
	begin();
	EXPECT(!build("'namespaces':[{'media':'null:1M'," U1 "}]"));
	EXPECT(strstr(errors.texts[0], "write protected permanently") != NULL);
	s = build("'namespaces':[{'media':'null:1M','write_protect':'permanent'," U1 "}]");
	EXPECT(s != NULL);
	media_registry_commit(registry);
	snapshot_destroy(s);
	end();
	protected_key[0] = 0;
}

/* The store's transaction failed at its end: values that the keeper accepted are lost. */
static void a_lost_protection_is_kept_by_the_next_change(void)
{
	static const char text[] =
		"'namespaces':[{'media':'null:1M','write_protect':'permanent'," U1 "}]";

	protected_key[0] = 0;
	begin();
	for (unsigned i = 0; i < 3; i++) {
		struct snapshot *s = build(text);

		media_registry_commit(registry);
		/* The second has nothing to keep; before the third, the first value is lost. */
		EXPECT_STR(i == 1 ? "" : "6f1c7b9a-52e0-4d0b-9a39-1f0f5c1d2e31", protected_key);
		protected_key[0] = 0;
		if (i == 1)
			media_registry_set_unkept(registry);
		snapshot_destroy(s);
	}
	end();
}

static void touch(const char *name)
{
	char path[256];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	fd = open(path, O_CREAT | O_WRONLY, 0600);
	EXPECT(fd >= 0);
	close(fd);
}

static void a_pool_counts_what_lies_in_it(void)
{
	struct snapshot *s;

	begin();
	s = build("'pool':{'folder':'%s/pool','capacity':'10M'},'namespaces':["
		  "{'media':'file:%s/pool/a,size=4M'},{'media':'file:%s/b,size=1M'},"
		  "{'media':'mem:1M'}]",
		  folder, folder, folder);
	EXPECT(s != NULL);
	media_registry_commit(registry);
	EXPECT_EQ(12 << 20, s->subsystems[0]->capacity_bytes);
	EXPECT_EQ(6 << 20, s->subsystems[0]->capacity_unused_bytes);
	snapshot_destroy(s);
	touch("taken");
	EXPECT(!build("'pool':{'folder':'%s/taken','capacity':'10M'}", folder));
	EXPECT(strstr(errors.texts[0], "/taken: Not a directory") != NULL);
	end();
}

static void a_pool_removes_only_what_it_made(void)
{
	uint8_t nguid[16] = {0xab};
	char *path, other[128];

	begin();
	path = pool_file_path(folder, nguid);
	touch("ab000000000000000000000000000000.img");
	touch("precious.img");
	snprintf(other, sizeof(other), "%s/precious.img", folder);
	EXPECT_EQ(-EPERM, pool_file_remove(folder, other, nguid));
	EXPECT_EQ(-EPERM, pool_file_remove("/elsewhere", path, nguid));
	EXPECT_EQ(0, file_bytes("ab000000000000000000000000000000.img"));
	EXPECT_EQ(0, pool_file_remove(folder, path, nguid));
	EXPECT_EQ(UINT64_MAX, file_bytes("ab000000000000000000000000000000.img"));
	EXPECT_EQ(0, file_bytes("precious.img"));
	/* The file is gone already: no error. */
	EXPECT_EQ(0, pool_file_remove(folder, path, nguid));
	free(path);
	end();
}

__attribute__((format(printf, 1, 2))) static struct config *config_of(const char *format, ...)
{
	struct config *config;
	va_list args;

	va_start(args, format);
	config = parse(format, args);
	va_end(args);
	return config;
}

static void orphans_are_told_and_stay(void)
{
	struct config *config;

	begin();
	config = config_of("{'version':1,'subsystems':[{'nqn':'" NQN
			   "','pool':{'folder':'%s','capacity':'10M'},'namespaces':["
			   "{'media':'file:%s/ab000000000000000000000000000000.img,size=1M'}]}]}",
			   folder, folder);
	touch("ab000000000000000000000000000000.img");
	touch("cd000000000000000000000000000000.img");
	touch("mine.img");
	EXPECT_EQ(1, pool_report_orphans(config));
	EXPECT_EQ(0, file_bytes("cd000000000000000000000000000000.img"));
	config_free(config);
	end();
}

/* 1,000 subsystems with 10 namespaces, half of them masked: near linear time, printed. */
static void large_configurations_are_quick(void)
{
	json_t *document = json_pack("{s:i,s:[]}", "version", 1, "subsystems");
	uint64_t start_ns, parsed_ns, built_ns, exported_ns;
	struct config *config = NULL;
	struct snapshot *snapshot = NULL;
	char nqn[96], host[96];
	char *diff;

	begin();
	for (unsigned s = 0; s < 1000; s++) {
		json_t *namespaces = json_array();

		snprintf(nqn, sizeof(nqn), "nqn.2026-11.io.weft:s%04u", s);
		snprintf(host, sizeof(host), "nqn.2014-08.org.example:h%04u", s);
		for (unsigned i = 0; i < 10; i++) {
			json_t *ns = json_pack("{s:s}", "media", "null:1G");

			if (i % 2)
				json_object_set_new(ns, "hosts", json_pack("[s]", host));
			json_array_append_new(namespaces, ns);
		}
		json_array_append_new(json_object_get(document, "subsystems"),
				      json_pack("{s:s,s:o}", "nqn", nqn, "namespaces", namespaces));
	}
	start_ns = clock_monotonic_ns();
	EXPECT_EQ(0, config_load_json(document, &config, &errors));
	EXPECT_EQ(0, config_identify(config, NULL, &errors));
	parsed_ns = clock_monotonic_ns();
	EXPECT_EQ(0, snapshot_from_config(config, registry, 1, &snapshot, &errors));
	media_registry_commit(registry);
	built_ns = clock_monotonic_ns();
	json_decref(document);
	document = config_to_json(config);
	diff = config_diff(config, config);
	exported_ns = clock_monotonic_ns();
	EXPECT_STR("", diff);
	EXPECT_EQ(1000, snapshot->mask_count);
	EXPECT_EQ(10000, media_registry_count(registry));
	printf("# 1,000 subsystems, 10,000 namespaces: read %.1f ms, built %.1f ms, written and "
	       "compared %.1f ms\n",
	       (double)(parsed_ns - start_ns) / 1e6, (double)(built_ns - parsed_ns) / 1e6,
	       (double)(exported_ns - built_ns) / 1e6);
	/* Ten times what any machine needs, far below quadratic time. */
	EXPECT(exported_ns - start_ns < 20 * NS_PER_S);
	free(diff);
	json_decref(document);
	config_free(config);
	snapshot_destroy(snapshot);
	end();
}

int main(void)
{
	TAP_RUN(growing_keeps_the_live_state);
	TAP_RUN(a_rollback_gives_everything_back);
	TAP_RUN(a_change_in_force_can_be_taken_back);
	TAP_RUN(an_undone_recreate_is_not_the_former_namespace);
	TAP_RUN(a_store_that_passes_is_withheld_until_the_change_is_kept);
	TAP_RUN(a_start_withholds_the_file_of_another_namespace);
	TAP_RUN(what_leaves_for_good_is_forgotten);
	TAP_RUN(another_uuid_is_another_live_state_over_the_same_medium);
	TAP_RUN(what_cannot_change_is_told);
	TAP_RUN(masks_say_who_sees_what);
	TAP_RUN(masks_have_room_for_many_hosts);
	TAP_RUN(protection_labels_and_marks_are_told);
	TAP_RUN(protection_for_good_outlives_the_document);
	TAP_RUN(a_lost_protection_is_kept_by_the_next_change);
	TAP_RUN(a_pool_counts_what_lies_in_it);
	TAP_RUN(a_pool_removes_only_what_it_made);
	TAP_RUN(orphans_are_told_and_stay);
	TAP_RUN(large_configurations_are_quick);
	return tap_end();
}
