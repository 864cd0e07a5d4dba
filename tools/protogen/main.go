// Command protogen turns one .proto file into Go, as protoc does with its Go
// plugins, without protoc: everything it needs is pinned by go.mod.
//
//	protogen DIRECTORY FILE.proto
//
// reads DIRECTORY/FILE.proto and writes its Go files beside it. FILE.proto is by
// what name programs know the file, so it is a path that nobody else has. The
// plugins protoc-gen-go and protoc-gen-go-grpc stand in the directory of protogen
// itself.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/bufbuild/protocompile"
	"github.com/bufbuild/protocompile/protoutil"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/pluginpb"
)

var plugins = []string{"protoc-gen-go", "protoc-gen-go-grpc"}

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: protogen DIRECTORY FILE.proto")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "protogen:", err)
		os.Exit(1)
	}
}

func run(directory, file string) error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find the plugins: %w", err)
	}
	described, err := compile(directory, file)
	if err != nil {
		return fmt.Errorf("compile %s: %w", filepath.Join(directory, file), err)
	}
	request, err := proto.Marshal(&pluginpb.CodeGeneratorRequest{
		FileToGenerate: []string{file},
		Parameter:      proto.String("paths=source_relative"),
		ProtoFile:      []*descriptorpb.FileDescriptorProto{described},
	})
	if err != nil {
		return fmt.Errorf("ask the plugins: %w", err)
	}
	for _, plugin := range plugins {
		if err := generate(filepath.Join(filepath.Dir(self), plugin), request, directory); err != nil {
			return fmt.Errorf("%s: %w", plugin, err)
		}
	}
	return nil
}

// compile reads a file that imports none, and keeps its comments.
func compile(directory, file string) (*descriptorpb.FileDescriptorProto, error) {
	compiler := protocompile.Compiler{
		Resolver:       &protocompile.SourceResolver{ImportPaths: []string{directory}},
		SourceInfoMode: protocompile.SourceInfoStandard,
	}
	files, err := compiler.Compile(context.Background(), file)
	if err != nil {
		return nil, err
	}
	return protoutil.ProtoFromFileDescriptor(files[0]), nil
}

// generate lets a plugin answer a request and writes what it made.
func generate(plugin string, request []byte, directory string) error {
	command := exec.Command(plugin)
	command.Stdin, command.Stderr = bytes.NewReader(request), os.Stderr
	out, err := command.Output()
	if err != nil {
		return err
	}
	var answer pluginpb.CodeGeneratorResponse
	if err := proto.Unmarshal(out, &answer); err != nil {
		return fmt.Errorf("read its answer: %w", err)
	}
	if answer.Error != nil {
		return errors.New(answer.GetError())
	}
	for _, file := range answer.File {
		if err := os.WriteFile(filepath.Join(directory, file.GetName()), []byte(file.GetContent()), 0o644); err != nil {
			return err
		}
	}
	return nil
}
