! SPDX-FileCopyrightText: The Cabane developers
! SPDX-License-Identifier: Apache-2.0 OR MIT

! A program in Fortran for the module `mpi`, or with F08 for `mpi_f08`: a message goes around, and a
! sum is added in place. MPI_IN_PLACE and MPI_STATUS_IGNORE are known by their addresses. With COMPARES
! it calls a function that has its name from the compiler.

program ring
#ifdef F08
  use mpi_f08
#else
  use mpi
#endif
  implicit none
#ifdef F08
  type(MPI_Comm) :: communicator
#else
  integer :: communicator
#endif
  integer :: rank, size, error, received, before, next, length, total
  character(len=MPI_MAX_LIBRARY_VERSION_STRING) :: version
  logical :: is_right

  call MPI_Init(error)
  call MPI_Comm_dup(MPI_COMM_WORLD, communicator, error)
  call MPI_Comm_rank(communicator, rank, error)
  call MPI_Comm_size(communicator, size, error)
  next = mod(rank + 1, size)
  before = mod(rank + size - 1, size)
  received = -1
  call MPI_Sendrecv(rank, 1, MPI_INTEGER, next, 7, received, 1, MPI_INTEGER, before, 7, &
                    communicator, MPI_STATUS_IGNORE, error)
  total = rank
  call MPI_Allreduce(MPI_IN_PLACE, total, 1, MPI_INTEGER, MPI_SUM, communicator, error)
  is_right = received == before .and. total == size * (size - 1) / 2
#ifdef COMPARES
  is_right = is_right .and. communicator /= MPI_COMM_WORLD
#endif
  call MPI_Get_library_version(version, length, error)
  length = scan(version(1:length) // char(10), char(10) // ',(') - 1
  print '(a,i0,a,i0,4a)', 'rank ', rank, ' of ', size, ', ', merge('right', 'wrong', is_right), &
    ', ', version(1:length)
  call MPI_Finalize(error)
end program
