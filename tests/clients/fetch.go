// Prints what a URL answers, by net/http as it is; with -bare, by a transport of the program's own, which asks no variable for a proxy.
package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
)

func main() {
	client := http.DefaultClient
	if os.Args[1] == "-bare" {
		client = &http.Client{Transport: &http.Transport{}}
	}
	answer, err := client.Get(os.Args[len(os.Args)-1])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	body, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != 200 {
		fmt.Fprintln(os.Stderr, answer.Status, err)
		os.Exit(1)
	}
	os.Stdout.Write(body)
}
