// Command franz_go is franz-go as a client of the matrix: see client.ts for the lines that it reads and writes.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

const waitMax = 30 * time.Second

// A []byte is base64 in JSON, and nil is null.
type header struct {
	name  string
	value []byte
}

func (h header) MarshalJSON() ([]byte, error) { return json.Marshal([]any{h.name, h.value}) }
func (h *header) UnmarshalJSON(data []byte) error {
	return json.Unmarshal(data, &[]any{&h.name, &h.value})
}

type record struct {
	Partition int32    `json:"partition"`
	Offset    int64    `json:"offset"`
	Timestamp int64    `json:"timestamp"`
	Key       []byte   `json:"key"`
	Value     []byte   `json:"value"`
	Headers   []header `json:"headers"`
}
type sent struct {
	record
	Codec string `json:"codec"`
}
type place struct {
	Partition int32 `json:"partition"`
	Offset    int64 `json:"offset"`
}

var codecs = map[string]kgo.CompressionCodec{
	"none":   kgo.NoCompression(),
	"gzip":   kgo.GzipCompression(),
	"snappy": kgo.SnappyCompression(),
	"lz4":    kgo.Lz4Compression(),
	"zstd":   kgo.ZstdCompression(),
}

func main() {
	if len(os.Args) < 4 {
		fail(fmt.Errorf("usage: produce BOOTSTRAP TOPIC, consume BOOTSTRAP TOPIC COUNT"))
	}
	ctx, cancel := context.WithTimeout(context.Background(), waitMax)
	defer cancel()
	seeds, topic := kgo.SeedBrokers(strings.Split(os.Args[2], ",")...), os.Args[3]
	if os.Args[1] == "produce" {
		fail(produce(ctx, seeds, topic))
		return
	}
	count, err := strconv.Atoi(os.Args[4])
	fail(err)
	fail(consume(ctx, seeds, topic, count))
}

// produce writes the records of standard input in their order; a codec is that of a client, so the codec ends a run of batches.
func produce(ctx context.Context, seeds kgo.Opt, topic string) error {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 16<<20)
	var run []*kgo.Record
	codec := ""
	end := func() error {
		if len(run) == 0 {
			return nil
		}
		client, err := kgo.NewClient(seeds, kgo.RequiredAcks(kgo.AllISRAcks()), kgo.ProducerBatchCompression(codecs[codec]),
			kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(50*time.Millisecond))
		if err != nil {
			return err
		}
		defer client.Close()
		// The results come in the order of the acknowledgements; the records themselves are filled in.
		if err := client.ProduceSync(ctx, run...).FirstErr(); err != nil {
			return err
		}
		for _, one := range run {
			print(place{one.Partition, one.Offset})
		}
		run = nil
		return nil
	}
	for lines.Scan() {
		var next sent
		if err := json.Unmarshal(lines.Bytes(), &next); err != nil {
			return err
		}
		if next.Codec != codec {
			if err := end(); err != nil {
				return err
			}
			codec = next.Codec
		}
		one := &kgo.Record{Topic: topic, Partition: next.Partition, Key: next.Key, Value: next.Value, Timestamp: time.UnixMilli(next.Timestamp)}
		for _, h := range next.Headers {
			one.Headers = append(one.Headers, kgo.RecordHeader{Key: h.name, Value: h.value})
		}
		run = append(run, one)
	}
	if err := lines.Err(); err != nil {
		return err
	}
	return end()
}

func consume(ctx context.Context, seeds kgo.Opt, topic string, count int) error {
	client, err := kgo.NewClient(seeds, kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		return err
	}
	defer client.Close()
	for count > 0 {
		fetches := client.PollRecords(ctx, count)
		if err := fetches.Err(); err != nil {
			return err
		}
		fetches.EachRecord(func(one *kgo.Record) {
			headers := []header{}
			for _, h := range one.Headers {
				headers = append(headers, header{h.Key, h.Value})
			}
			print(record{one.Partition, one.Offset, one.Timestamp.UnixMilli(), one.Key, one.Value, headers})
			count--
		})
	}
	return nil
}

func print(line any) {
	text, err := json.Marshal(line)
	fail(err)
	os.Stdout.Write(append(text, '\n'))
}

func fail(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
