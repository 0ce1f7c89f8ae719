module github.com/chivenet/chive

go 1.26
