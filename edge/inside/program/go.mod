module tenancy.dev/inside

go 1.24
