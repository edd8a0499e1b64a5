# Shows how far `pip install` is, in a few words: reads what it prints, writes a line for every twentieth package.
/^Collecting/ { if (++found % 20 == 0) { printf "  %d of about %d packages found, %s the latest\n", found, total, $2; fflush() } }
/^Installing collected packages/ { printf "  %d packages found; unpacking them takes a minute or so\n", found; fflush() }
/^Successfully installed/ { print "  done"; fflush() }
